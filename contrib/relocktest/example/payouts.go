// Package payouts is the sample service of docs/testing.md: it pays invoices, each of them once.
package payouts

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
)

// What Pay and Settle fail with, beside what the ledger and relock say.
var (
	ErrBusy        = errors.New("another worker has this invoice: do not repeat")
	ErrUnavailable = errors.New("no lock to be had now: repeat later")
)

// A Ledger keeps what was paid. It remembers the greatest token it has seen for each invoice, and
// refuses lower ones.
type Ledger interface {
	Paid(ctx context.Context, invoice string) (bool, error)
	Pay(ctx context.Context, invoice string, token int64) error
}

// Service pays invoices. Any number of processes may run it.
type Service struct {
	Locks  *relock.Client
	Ledger Ledger
}

// Pay pays an invoice, unless it was paid before.
func (s *Service) Pay(ctx context.Context, invoice string) error {
	lock := s.Locks.Mutex("invoice:"+invoice, relock.WithWait(time.Second))
	err := lock.Do(ctx, func(ctx context.Context) error {
		paid, err := s.Ledger.Paid(ctx, invoice)
		if err != nil || paid {
			return err
		}
		return s.Ledger.Pay(ctx, invoice, relock.Token(ctx))
	})
	switch {
	case errors.Is(err, relock.ErrNotAcquired):
		return ErrBusy
	case errors.Is(err, relock.ErrUnavailable):
		return ErrUnavailable
	}
	return err
}

// Settle pays the invoices of a night. One process at a time does that; it gives way when another one
// wants to, and returns what is left.
func (s *Service) Settle(ctx context.Context, invoices []string) (left []string, err error) {
	lease, err := s.Locks.Mutex("night").Lock(ctx)
	if err != nil {
		return invoices, err
	}
	defer lease.Unlock(ctx)
	for i, invoice := range invoices {
		select {
		case <-lease.Wanted():
			return invoices[i:], nil
		default:
		}
		if err := s.Pay(lease.Context(), invoice); err != nil {
			return invoices[i:], err
		}
	}
	return nil, nil
}
