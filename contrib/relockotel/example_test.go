package relockotel_test

import (
	"context"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/rueidis"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockotel"
)

// A program whose locks Prometheus watches.
func Example() {
	prometheus, err := exporter.New()
	if err != nil {
		log.Fatal(err)
	}
	observer, err := relockotel.New(relockotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(prometheus))))
	if err != nil {
		log.Fatal(err)
	}
	rdb, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}, DisableCache: true})
	if err != nil {
		log.Fatal(err)
	}
	defer rdb.Close()
	locks, err := relock.New(rdb, relock.WithObserver(observer))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	http.Handle("/metrics", promhttp.Handler())
	go func() { log.Fatal(http.ListenAndServe("localhost:9464", nil)) }()

	err = locks.Mutex("order:4711").Do(context.Background(), func(context.Context) error {
		return nil // is counted under order:*
	})
	if err != nil {
		log.Print(err)
	}
}
