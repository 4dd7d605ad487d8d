package operator

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// introduce adds the cards of the holders' clients, if they have one.
func introduce(ctx context.Context, rdb driver.Reader, seen []Sighting) {
	known := cards(ctx, rdb, func(yield func(string) bool) {
		for i := 0; i < len(seen) && yield(seen[i].client); i++ {
		}
	})
	for i := range seen {
		seen[i].By = known[seen[i].client]
	}
}

// introduceHolders adds what the clients of holders say of themselves, as far as any node knows it.
func (r *Reader) introduceHolders(ctx context.Context, holders []Holding) {
	for _, rdb := range r.nodes {
		known := cards(ctx, rdb, func(yield func(string) bool) {
			for i := 0; i < len(holders) && yield(wire.ClientOf(holders[i].Owner)); i++ {
			}
		})
		for i := range holders {
			holders[i].By = cmp.Or(holders[i].By, known[wire.ClientOf(holders[i].Owner)])
		}
	}
}

// cards returns the cards of clients, by uuid. A card that cannot be read is no error.
func cards(ctx context.Context, rdb driver.Reader, clients iter.Seq[string]) map[string]wire.Card {
	known := make(map[string]wire.Card)
	for client := range clients {
		if client != "" {
			known[client] = wire.Card{}
		}
	}
	all := make([]string, 0, len(known))
	for client := range known {
		all = append(all, client)
	}
	for some := range slices.Chunk(all, scanCount) {
		if !ask(ctx, rdb, some, known) {
			break
		}
	}
	return known
}

// ask reads the cards of clients into known. It returns false if it is of no use to ask for more.
func ask(ctx context.Context, rdb driver.Reader, clients []string, known map[string]wire.Card) bool {
	ctx, cancel := Soon(ctx)
	defer cancel()
	t := trip{rdb: rdb}
	for _, client := range clients {
		t.ask(func(said driver.Value) error {
			_, found, err := page(said)
			if err != nil {
				return err
			}
			fields := make(map[string]string)
			for j := 0; j+1 < len(found); j += 2 {
				fields[found[j]] = found[j+1]
			}
			known[client] = wire.CardOf(fields)
			return nil
		}, "HSCAN", wire.ClientKey(client), "0", "COUNT", strconv.Itoa(hashCount))
	}
	return t.send(ctx) == nil
}
