module github.com/relock-go/relock/internal/tools/release

go 1.26.0

replace (
	github.com/relock-go/relock => ../../../
	github.com/relock-go/relock/internal/tools/api => ../api
)

require (
	github.com/relock-go/relock v0.0.0-00010101000000-000000000000
	github.com/relock-go/relock/internal/tools/api v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	golang.org/x/mod v0.42.0
)

require (
	github.com/redis/rueidis v1.0.79 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/exp v0.0.0-20261113113407-e3970619a1a4 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/tools v0.52.1-0.20261106145633-d407941a339a // indirect
)
