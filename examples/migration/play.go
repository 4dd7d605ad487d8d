package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/alicebob/miniredis/v2"
)

const (
	played   = "RELOCK_EXAMPLE_PLAYED" // set for a process that ends when its standard input does
	patience = time.Minute             // for what must happen on a machine that is very busy
	enough   = 10                      // counts of each release, before a figure tells anything
)

// keys are the counter, and how often each release has counted.
var keys = []string{prefix + "counter", prefix + "before", prefix + "middle", prefix + "after"}

// move is a deployment: two processes of the first release run, and two of the second come beside them.
type move struct{ first, second string }

// there leads from the old lock to relock, and back leads back. Nobody should ship skipped.
var (
	there   = []move{{"before", "middle"}, {"middle", "after"}}
	back    = []move{{"after", "middle"}, {"middle", "before"}}
	skipped = []move{{"before", "after"}}
)

// figure tells of the time that both releases of a move ran: how often each one counted, and how many counts were lost.
type figure struct {
	move
	counted [2]int64
	lost    int64
}

// show plays all moves, and prints what became of the counter.
func show(ctx context.Context) error {
	at := *url
	if at == "" && *from == "rueidislock" {
		return errors.New("rueidislock needs -redis: it is told of its keys by client-side caching, which the embedded Redis lacks")
	}
	if at == "" {
		mini := miniredis.NewMiniRedis()
		if err := mini.Start(); err != nil {
			return err
		}
		defer mini.Close()
		mini.ClockTTL(true) // otherwise leases never end
		at = "redis://" + mini.Addr()
	}
	fmt.Printf("%-10s %8s   %-10s %8s %8s\n", "release", "counts", "beside", "counts", "lost")
	for _, moves := range [][]move{append(there, back...), skipped} {
		figures, err := play(ctx, *from, at, moves, *lasts)
		for _, f := range figures {
			fmt.Printf("%-10s %8d   %-10s %8d %8d\n", f.first, f.counted[0], f.second, f.counted[1], f.lost)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// play makes these moves one after the other, each as long as it says, as a rolling deployment does: the processes of a
// move's second release are those of the next one's first.
func play(ctx context.Context, from, url string, moves []move, lasts time.Duration) (figures []figure, err error) {
	c, err := openCounter(url)
	if err != nil {
		return nil, err
	}
	defer c.rdb.Close()
	if err := c.rdb.Del(ctx, keys...).Err(); err != nil {
		return nil, err
	}
	defer c.rdb.Del(context.WithoutCancel(ctx), keys...)
	var running, coming pair
	defer func() { err = errors.Join(err, running.stop(), coming.stop()) }()
	if running, err = start(ctx, from, url, moves[0].first); err != nil {
		return nil, err
	}
	for _, m := range moves {
		if coming, err = start(ctx, from, url, m.second); err != nil {
			return figures, err
		}
		f, err := c.watch(ctx, m, lasts)
		if err != nil {
			return figures, err
		}
		figures = append(figures, f)
		if err = running.stop(); err != nil {
			return figures, err
		}
		running, coming = coming, pair{}
	}
	return figures, nil
}

// watch returns what was counted until the time is over and both releases have counted enough.
func (c counter) watch(ctx context.Context, m move, lasts time.Duration) (figure, error) {
	ctx, cancel := context.WithTimeout(ctx, lasts+patience)
	defer cancel()
	begin, lost, err := c.read(ctx, m)
	f := figure{move: m}
	for end := time.Now().Add(lasts); err == nil; {
		var now [2]int64
		var all int64
		if now, all, err = c.read(ctx, m); err != nil {
			break
		}
		f.counted, f.lost = [2]int64{now[0] - begin[0], now[1] - begin[1]}, all-lost
		if !time.Now().Before(end) && min(f.counted[0], f.counted[1]) >= enough {
			return f, nil
		}
		select {
		case <-time.After(min(lasts/10, time.Second)):
		case <-ctx.Done():
		}
	}
	return f, fmt.Errorf("%s beside %s, which counted %d: %w", m.first, m.second, f.counted, err)
}

// read returns how often each release of the move has counted, and how many counts of all releases are lost.
func (c counter) read(ctx context.Context, m move) (counted [2]int64, lost int64, err error) {
	values, err := c.rdb.MGet(ctx, keys...).Result()
	if err != nil {
		return counted, 0, err
	}
	for i, v := range values {
		text, there := v.(string)
		if !there {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return counted, 0, err
		}
		switch keys[i] {
		case prefix + "counter":
			lost -= n
			continue
		case prefix + m.first:
			counted[0] = n
		case prefix + m.second:
			counted[1] = n
		}
		lost += n
	}
	return counted, lost, nil
}

// pair are two processes of one release.
type pair [2]*process

type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// start starts this program again, twice, and returns when both processes count.
func start(ctx context.Context, from, url, step string) (p pair, err error) {
	self, err := os.Executable()
	if err != nil {
		return p, err
	}
	for i := range p {
		cmd := exec.CommandContext(ctx, self, "-from", from, "-redis", url, "-step", step, "-expiry", expiry.String())
		cmd.Env = append(os.Environ(), played+"=1")
		cmd.Stderr = os.Stderr
		stdin, err := cmd.StdinPipe()
		if err != nil {
			return p, err
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			return p, err
		}
		if err := cmd.Start(); err != nil {
			return p, err
		}
		p[i] = &process{cmd, stdin}
		if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
			return p, fmt.Errorf("a process of release %s has not counted: %w", step, err)
		}
	}
	return p, nil
}

// stop returns when the processes have ended.
func (p pair) stop() (err error) {
	for _, one := range p {
		if one != nil {
			_ = one.stdin.Close()
			err = errors.Join(err, one.cmd.Wait())
		}
	}
	return err
}
