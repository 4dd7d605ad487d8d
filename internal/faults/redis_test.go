package faults_test

import (
	"context"
	"errors"
	"testing"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/stretchr/testify/require"
)

var _ driver.Redis = (*faults.Redis)(nil)
var _ driver.Redis = (*faults.Stub)(nil)

// heard notes what a handler is told.
type heard struct{ all []string }

func (h *heard) Subscribed(channel string)       { h.all = append(h.all, "+"+channel) }
func (h *heard) Message(channel, message string) { h.all = append(h.all, channel+":"+message) }
func (h *heard) Impaired(cause error)            { h.all = append(h.all, cause.Error()) }

// counter is a Stub that counts what it runs.
func counter(n *int64) *faults.Stub {
	return &faults.Stub{
		OnRun: func(context.Context, *driver.Script, []string, []string) (driver.Value, error) {
			*n++
			return driver.Int(*n), nil
		},
		OnDo: func(context.Context, []string) (driver.Value, error) {
			*n++
			return driver.Int(*n), nil
		},
	}
}

func TestFatesAtTheSeam(t *testing.T) {
	script := driver.NewScript("-- renew: all.\n--\nreturn 1")
	for name, tc := range map[string]struct {
		fate   faults.Fate
		ran    int64
		answer int64
		err    string
		late   int64
	}{
		"pass":       {faults.Pass, 1, 1, "", 1},
		"lose call":  {faults.LoseCall, 0, 0, "answer is lost", 0},
		"lose reply": {faults.LoseReply, 1, 0, "answer is lost", 1},
		"twice":      {faults.Twice, 2, 2, "", 2},
		"late":       {faults.Late, 0, 0, "answer is lost", 1},
		"refuse":     {faults.Refuse("OOM no room"), 0, 0, "OOM no room", 0},
	} {
		for how, run := range map[string]func(r driver.Redis) (driver.Value, error){
			"run": func(r driver.Redis) (driver.Value, error) {
				return r.Run(t.Context(), script, []string{"k"}, []string{"a"})
			},
			"do": func(r driver.Redis) (driver.Value, error) {
				got, err := r.Do(t.Context(), []string{"INCR", "k"})
				if err != nil {
					return driver.Value{}, err
				}
				return got[0], got[0].Err()
			},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				var n int64
				r := faults.NewRedis(counter(&n))
				r.Filter(faults.Next(faults.Carrying("k"), tc.fate))
				got, err := run(r)
				require.Equal(t, tc.ran, n)
				if tc.err != "" {
					require.ErrorContains(t, err, tc.err)
				} else {
					require.NoError(t, err)
					answer, err := got.Int64()
					require.NoError(t, err)
					require.Equal(t, tc.answer, answer)
				}
				r.Flush()
				require.Equal(t, tc.late, n)
			})
		}
	}
}

func TestSubscriptionsAtTheSeam(t *testing.T) {
	stub := &faults.Stub{OnSub: func(_ context.Context, channel string) error {
		if channel == "bad" {
			return &driver.ReplyError{Text: "NOPERM"}
		}
		return nil
	}}
	r := faults.NewRedis(stub)
	h := &heard{}
	l, err := r.Listen(t.Context(), h)
	require.NoError(t, err)
	require.NoError(t, l.Subscribe(t.Context(), "a", "b"))
	require.Error(t, l.Subscribe(t.Context(), "c", "bad"))
	errs := l.SubscribeApart(t.Context(), "bad", "c")
	require.Error(t, errs[0])
	require.NoError(t, errs[1])
	r.Filter(faults.Each(faults.Next(faults.Command("MESSAGE", "a"), faults.Late),
		faults.All(faults.Command("SUBSCRIBE", "d"), faults.Refuse("NOPERM d"))))
	require.Equal(t, 1, stub.Publish("a", "1"))
	require.Equal(t, 1, stub.Publish("a", "2"))
	r.Flush()
	require.ErrorContains(t, l.SubscribeApart(t.Context(), "d")[0], "NOPERM d")
	require.NoError(t, l.Unsubscribe(t.Context(), "b"))
	require.Zero(t, stub.Publish("b", "3"))
	require.Equal(t, []string{"+a", "+b", "+c", "a:2", "a:1"}, h.all)
	gone := errors.New("gone")
	stub.Drop(gone)
	require.ErrorIs(t, <-l.Dropped(), gone)
	require.Zero(t, stub.Publish("a", "4"))
}

// A follower hears until it is dropped, or its context ends.
func TestFollowAtTheSeam(t *testing.T) {
	stub := &faults.Stub{Slots: true}
	r := faults.NewRedis(stub)
	require.True(t, r.Cluster())
	require.Same(t, stub, r.Client())
	gone := errors.New("gone")
	h := &relay{subscribed: make(chan string, 1), messages: make(chan string, 1)}
	ended := make(chan error, 1)
	go func() { ended <- r.Follow(context.Background(), h, "a") }()
	require.Equal(t, "a", within(t, h.subscribed))
	require.Equal(t, 1, stub.Publish("a", "1"))
	require.Equal(t, "1", within(t, h.messages))
	stub.Drop(gone)
	require.ErrorIs(t, within(t, ended), gone)
	r.Filter(faults.All(faults.Command("SSUBSCRIBE"), faults.LoseCall))
	require.ErrorIs(t, r.Follow(t.Context(), h, "a"), faults.ErrNoAnswer)
}

// relay passes on what a handler is told.
type relay struct{ subscribed, messages chan string }

func (r *relay) Subscribed(channel string) { r.subscribed <- channel }
func (r *relay) Message(_, message string) { r.messages <- message }
func (r *relay) Impaired(error)            {}
