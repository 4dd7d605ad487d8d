package overgoredis

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock/internal/driver"
)

// Read sends commands of one key each.
func (d *Redis) Read(ctx context.Context, commands ...[]string) ([]driver.Value, error) {
	sent := make([]redis.Cmder, len(commands))
	for i, words := range commands {
		c := newCommand(len(words))
		for _, word := range words {
			c.words = append(c.words, word)
		}
		c.seal(ctx)
		c.SetFirstKeyPos(1)
		sent[i] = c
	}
	answers, err := send(ctx, d.rdb, sent)
	d.reloadMasters(err)
	return answers, err
}

// Masters returns a driver of each master.
func (d *Redis) Masters(ctx context.Context) ([]driver.Redis, error) {
	if d.cluster == nil {
		return []driver.Redis{d}, nil
	}
	var (
		mu  sync.Mutex // guards all: the library calls for all masters at once
		all []driver.Redis
	)
	err := d.cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, &Redis{rdb: master, node: master})
		return nil
	})
	if err != nil {
		return nil, failure(err)
	}
	return all, nil
}
