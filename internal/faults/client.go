package faults

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/driver"
)

// Client is a user's client with faults. Commands by DoCache and DoStream have none.
type Client struct {
	rueidis.Client
	*Line
}

// NewClient puts faults around a client. The inner one stays the caller's to close.
func NewClient(inner rueidis.Client) *Client { return &Client{inner, newLine()} }

// doer is what a client and a dedicated client have in common.
type doer interface {
	Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult
	DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult
	Receive(ctx context.Context, subscribe rueidis.Completed, fn func(rueidis.PubSubMessage)) error
}

// Do is one call.
func (c *Client) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return c.do(ctx, c.Client, cmd)
}

// DoMulti is one call for each command. With a filter, the commands go one after the other.
func (c *Client) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	return c.doMulti(ctx, c.Client, multi)
}

// Receive is a call, and so is each message.
func (c *Client) Receive(ctx context.Context, subscribe rueidis.Completed, fn func(rueidis.PubSubMessage)) error {
	return c.receive(ctx, c.Client, subscribe, fn)
}

// Dedicated lends a connection with the same faults.
func (c *Client) Dedicated(fn func(rueidis.DedicatedClient) error) error {
	return c.Client.Dedicated(func(conn rueidis.DedicatedClient) error { return fn(dedicated{conn, c}) })
}

// Dedicate lends a connection with the same faults.
func (c *Client) Dedicate() (rueidis.DedicatedClient, func()) {
	conn, release := c.Client.Dedicate()
	return dedicated{conn, c}, release
}

// Nodes returns the clients of a Cluster's nodes, with the same faults.
func (c *Client) Nodes() map[string]rueidis.Client {
	nodes := c.Client.Nodes()
	for addr, node := range nodes {
		nodes[addr] = &Client{node, c.Line}
	}
	return nodes
}

func (c *Client) do(ctx context.Context, inner doer, cmd rueidis.Completed) rueidis.RedisResult {
	words := cmd.Commands()
	text, known := c.text(words, func(script string) string { return driver.NewScript(script).SHA })
	if c.passes() {
		return inner.Do(ctx, cmd)
	}
	if !known {
		// The answer is NOSCRIPT: the client sends the text next.
		return c.Client.Do(ctx, c.B().Evalsha().Sha1(strings.Repeat("0", 40)).Numkeys(0).Build())
	}
	cmd = cmd.Pin()
	return carry(c.Line, &Call{Context: ctx, Words: words, Script: text}, way[rueidis.RedisResult]{
		send:   func(ctx context.Context) rueidis.RedisResult { return c.run(ctx, inner, cmd, text) },
		refuse: func(reply string) rueidis.RedisResult { return c.refusal(ctx, reply) },
		fail:   rueidis.NewErrorResult,
	})
}

// run sends a command, and then the script's text if the server does not know its hash. Without
// that, a command whose answer is lost would never run: its sender would not hear of NOSCRIPT.
func (c *Client) run(ctx context.Context, inner doer, cmd rueidis.Completed, text string) rueidis.RedisResult {
	got := inner.Do(ctx, cmd)
	if refused, ok := rueidis.IsRedisErr(got.Error()); text == "" || !ok || !refused.IsNoScript() {
		return got
	}
	words := cmd.Commands()
	keys, err := strconv.Atoi(words[2])
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	eval := c.B().Eval().Script(text).Numkeys(int64(keys)).Key(words[3 : 3+keys]...).Arg(words[3+keys:]...)
	return inner.Do(ctx, eval.Build())
}

// refusal has a server answer with an error: the client library's type of error can be made in no
// other way.
func (c *Client) refusal(ctx context.Context, reply string) rueidis.RedisResult {
	cmd := c.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(reply).Build()
	return c.Client.Do(ctx, cmd)
}

func (c *Client) doMulti(ctx context.Context, inner doer, multi []rueidis.Completed) []rueidis.RedisResult {
	if c.passes() {
		return inner.DoMulti(ctx, multi...)
	}
	answers := make([]rueidis.RedisResult, len(multi))
	for i, cmd := range multi {
		answers[i] = c.do(ctx, inner, cmd)
	}
	return answers
}

func (c *Client) receive(ctx context.Context, inner doer, cmd rueidis.Completed, fn func(rueidis.PubSubMessage)) error {
	words := cmd.Commands()
	cmd = cmd.Pin()
	return carry(c.Line, &Call{Context: ctx, Words: words}, way[error]{
		send: func(ctx context.Context) error {
			return inner.Receive(ctx, cmd, func(m rueidis.PubSubMessage) { c.deliver(m.Channel, m.Message, func() { fn(m) }) })
		},
		refuse: func(reply string) error { return c.refusal(ctx, reply).Error() },
		fail:   func(err error) error { return err },
	})
}

// dedicated is a dedicated connection with faults.
type dedicated struct {
	rueidis.DedicatedClient
	c *Client
}

func (d dedicated) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return d.c.do(ctx, d.DedicatedClient, cmd)
}

func (d dedicated) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	return d.c.doMulti(ctx, d.DedicatedClient, multi)
}

func (d dedicated) Receive(ctx context.Context, subscribe rueidis.Completed, fn func(rueidis.PubSubMessage)) error {
	return d.c.receive(ctx, d.DedicatedClient, subscribe, fn)
}

func (d dedicated) SetPubSubHooks(hooks rueidis.PubSubHooks) <-chan error {
	if pass := hooks.OnMessage; pass != nil {
		hooks.OnMessage = func(m rueidis.PubSubMessage) { d.c.deliver(m.Channel, m.Message, func() { pass(m) }) }
	}
	return d.DedicatedClient.SetPubSubHooks(hooks)
}

func (d dedicated) Close() { d.c.signal([]string{"CLOSE"}, d.DedicatedClient.Close) }
