package election_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/election"
	"github.com/relock-go/relock/internal/redistest"
)

func Example() {
	s := new(redistest.Stage)
	defer s.End()
	rdb := redistest.Start(s).Client() // the client that a service has already
	locks, err := relock.New(rdb, relock.WithClientName("billing"))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	ctx, stop := context.WithCancel(context.Background()) // by signal.NotifyContext in a service
	leader := election.New(locks.Mutex("billing:leader", relock.WithLease(5*time.Second)))
	err = leader.Run(ctx, func(ctx context.Context) error {
		now, err := leader.Leader(ctx)
		if err != nil {
			return err
		}
		fmt.Println(now.Client.Name, "leads under a fencing token:", relock.Token(ctx) > 0)
		stop()
		<-ctx.Done() // ends before another process leads
		return nil
	})
	fmt.Println("at its end, Run returned", err)
	// Output:
	// billing leads under a fencing token: true
	// at its end, Run returned <nil>
}

// Watch tells each change of the leader.
func ExampleElection_Watch() {
	s := new(redistest.Stage)
	defer s.End()
	locks, err := relock.New(redistest.Start(s).Client(), relock.WithClientName("billing"))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	leader := election.New(locks.Mutex("billing:leader"))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error)
	for now, err := range leader.Watch(ctx) {
		switch {
		case err != nil:
			fmt.Println("not known for now:", err)
		case now.Held:
			fmt.Println("the leader is", now.Client.Name)
			stop()
		default:
			fmt.Println("no process leads")
			go func() { ended <- leader.Run(ctx, func(context.Context) error { return nil }) }()
		}
	}
	fmt.Println(<-ended)
	// Output:
	// no process leads
	// the leader is billing
	// <nil>
}
