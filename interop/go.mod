module github.com/relock-go/relock/interop

go 1.26.0

replace github.com/relock-go/relock => ../

require (
	github.com/redis/rueidis v1.0.79
	github.com/relock-go/relock v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/google/uuid v1.6.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
