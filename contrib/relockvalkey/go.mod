module github.com/relock-go/relock/contrib/relockvalkey

go 1.25.0

require (
	github.com/relock-go/relock v0.1.0
	github.com/stretchr/testify v1.12.1
	github.com/valkey-io/valkey-go v1.0.79
	go.uber.org/goleak v1.3.0
)
