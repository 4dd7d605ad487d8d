// Package steps does the work of command probe. It is not covered itself, or its own waiting would
// never let the coverage come to rest.
package steps

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/coverage"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
)

const (
	lease    = 10 * time.Minute       // far longer than the probe lives: nothing is renewed
	quiet    = 100 * time.Millisecond // so long without any code run is rest
	patience = 5 * time.Second        // how long to wait for rest
)

// Main measures by the arguments of the command line. It ends the process if that fails.
func Main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: probe ADDRESS LOCKDIR UNLOCKDIR")
		os.Exit(2)
	}
	if err := probe(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

// probe measures Lock, then Unlock, on the Redis at addr.
func probe(addr, lockDir, unlockDir string) error {
	rdb, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return err
	}
	defer rdb.Close()
	client, err := relock.New(rdb, relock.WithLease(lease))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := warmUp(client); err != nil {
		return err
	}
	mutex := client.Mutex("walk:measured")
	var held *relock.Lease
	err = measure(lockDir, func() (err error) {
		held, err = mutex.Lock(context.Background())
		return err
	})
	if err != nil {
		return err
	}
	return measure(unlockDir, func() error { return held.Unlock(context.Background()) })
}

// warmUp locks and unlocks once, so that what is done only once is over: connections are open, and
// the server knows the scripts.
func warmUp(client *relock.Client) error {
	held, err := client.Mutex("walk:first").Lock(context.Background())
	if err != nil {
		return err
	}
	return held.Unlock(context.Background())
}

// measure writes to dir which code ran for act alone. It waits for rest before and after, so that
// earlier code has ended, and what act set off has run.
func measure(dir string, act func() error) error {
	if err := rest(); err != nil {
		return err
	}
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	if err := act(); err != nil {
		return err
	}
	if err := rest(); err != nil {
		return err
	}
	if err := coverage.WriteMetaDir(dir); err != nil {
		return err
	}
	return coverage.WriteCountersDir(dir)
}

// rest returns once no code has run for a while, or when patience is over: the other processes then
// outvote this one.
func rest() error {
	var before []byte
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		var now bytes.Buffer
		if err := coverage.WriteCounters(&now); err != nil {
			return err
		}
		if bytes.Equal(before, now.Bytes()) {
			return nil
		}
		before = now.Bytes()
		time.Sleep(quiet)
	}
	return nil
}
