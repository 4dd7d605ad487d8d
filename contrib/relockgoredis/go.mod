module github.com/relock-go/relock/contrib/relockgoredis

go 1.25.0

require (
	github.com/redis/go-redis/v9 v9.19.0
	github.com/relock-go/relock v0.1.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)
