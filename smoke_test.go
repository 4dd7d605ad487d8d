package relock

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

func TestSmoke(t *testing.T) {
	for _, real := range []bool{false, true} {
		t.Run(fmt.Sprint(real), func(t *testing.T) {
			var opt rueidis.ClientOption
			if real {
				cmd := exec.Command("redis-server", "--port", "7777", "--save", "")
				require.NoError(t, cmd.Start())
				defer cmd.Process.Kill()
				time.Sleep(200 * time.Millisecond)
				opt = rueidis.ClientOption{InitAddress: []string{"127.0.0.1:7777"}}
			} else {
				m := miniredis.RunT(t)
				opt = rueidis.ClientOption{InitAddress: []string{m.Addr()}, DisableCache: true, ForceSingleClient: true, AlwaysRESP2: true}
			}
			rdb, err := rueidis.NewClient(opt)
			require.NoError(t, err)
			defer rdb.Close()
			c, err := New(rdb)
			require.NoError(t, err)
			defer c.Close()
			c2, err := New(rdb)
			require.NoError(t, err)
			defer c2.Close()
			m := c.Mutex("orders")
			ctx := context.Background()
			l, err := m.Lock(ctx)
			require.NoError(t, err)
			l2, err := m.Lock(l.Context())
			require.NoError(t, err)
			st, err := m.State(ctx)
			require.NoError(t, err)
			t.Logf("%+v token %d", st, l.Token())
			_, err = c2.Mutex("orders").TryLock(ctx)
			t.Log(err)
			require.NoError(t, l2.Unlock(ctx))
			go func() {
				time.Sleep(50 * time.Millisecond)
				l.Unlock(ctx)
			}()
			b := time.Now()
			l3, err := c2.Mutex("orders").Lock(ctx)
			require.NoError(t, err)
			t.Log(time.Since(b), l3.Token())
			require.NoError(t, l3.Unlock(ctx))
			var wg sync.WaitGroup
			n := 0
			b = time.Now()
			for i := range 128 {
				mm := []*Client{c, c2}[i%2].Mutex("orders")
				wg.Go(func() {
					for range 200 {
						l, err := mm.Lock(ctx)
						if err != nil {
							t.Error(err)
							return
						}
						n++
						if err := l.Unlock(ctx); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			t.Log(n, time.Since(b))
		})
	}
}
