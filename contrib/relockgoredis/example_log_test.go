package relockgoredis_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// redisLog sends go-redis's own lines to slog.
type redisLog struct{}

func (redisLog) Printf(ctx context.Context, format string, v ...any) {
	slog.DebugContext(ctx, fmt.Sprintf(format, v...), "from", "go-redis")
}

func init() { redis.SetLogger(redisLog{}) }

// The README shows the logger that these tests run with.
func TestReadmeShowsTheLogger(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	own, err := os.ReadFile("example_log_test.go")
	require.NoError(t, err)
	_, code, found := strings.Cut(string(own), "// redisLog")
	require.True(t, found)
	code, _, _ = strings.Cut(code, "\n// The README")
	require.Contains(t, string(readme), strings.TrimSpace("// redisLog"+code))
}
