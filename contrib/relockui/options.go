package relockui

import (
	"context"
	"log/slog"
)

// An Option changes a page.
type Option func(*settings)

// settings are what options set.
type settings struct {
	prefix string
	label  string
	force  bool
	ctx    context.Context
	log    *slog.Logger
}

// WithForce puts a button on each lock's page that frees the lock whoever holds it, after a
// question. The lock's holder is told, but may still act for a moment: only fencing tokens keep it
// out then. Whoever may see the page may free locks. What browsers send from other sites is
// refused.
func WithForce() Option { return func(s *settings) { s.force = true } }

// WithNamePrefix says what the names of all locks start with in Redis, as relock.WithNamePrefix
// does. The page shows those alone, without it.
func WithNamePrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// WithLabel says at the top of the page which Redis it shows.
func WithLabel(text string) Option { return func(s *settings) { s.label = text } }

// WithContext ends what the page reads once ctx ends. Without it a look that is under way when the
// server ends goes on for some seconds.
func WithContext(ctx context.Context) Option { return func(s *settings) { s.ctx = ctx } }

// WithLogger is told which locks the page freed, and for whom. Nothing else is logged.
func WithLogger(log *slog.Logger) Option { return func(s *settings) { s.log = log } }
