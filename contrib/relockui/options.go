package relockui

import (
	"context"
	"log/slog"
)

// An Option changes a page.
type Option func(*settings)

// settings are what options set.
type settings struct {
	label string
	force bool
	ctx   context.Context
	log   *slog.Logger
}

// WithForce puts a button on each lock's page that frees the lock whoever holds it, after a
// question. The holder is told, but may still act for a moment: only fencing tokens keep it out then.
// Everyone that can open the page can free locks. Requests that a browser sends from another site are
// refused.
func WithForce() Option { return func(s *settings) { s.force = true } }

// WithLabel says at the top of the page which Redis it shows.
func WithLabel(text string) Option { return func(s *settings) { s.label = text } }

// WithContext ends the page's reads from Redis once ctx ends. Without it a read that is under way when
// the server ends goes on for some seconds.
func WithContext(ctx context.Context) Option { return func(s *settings) { s.ctx = ctx } }

// WithLogger logs which locks the page freed, and for whom. Nothing else is logged.
func WithLogger(log *slog.Logger) Option { return func(s *settings) { s.log = log } }
