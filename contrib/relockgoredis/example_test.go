package relockgoredis_test

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockgoredis"
)

func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer rdb.Close()
	locks, err := relockgoredis.New(rdb)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = locks.Mutex("orders:42").Do(context.Background(), func(ctx context.Context) error {
		log.Print("the token for the store: ", relock.Token(ctx))
		return nil
	})
	if err != nil {
		log.Print(err)
	}
}
