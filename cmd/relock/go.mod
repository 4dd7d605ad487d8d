module github.com/relock-go/relock/cmd/relock

go 1.25.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/gdamore/tcell/v2 v2.13.10
	github.com/google/uuid v1.6.0
	github.com/redis/rueidis v1.0.79
	github.com/relock-go/relock v0.1.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/gdamore/encoding v1.0.1 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/lucasb-eyer/go-colorful v1.3.0 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/term v0.37.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)
