module github.com/relock-go/relock/contrib/relockui

go 1.25.0

require (
	github.com/redis/rueidis v1.0.79
	github.com/relock-go/relock v0.1.0
)

require (
	github.com/google/uuid v1.6.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
