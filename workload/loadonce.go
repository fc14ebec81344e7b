package workload

import (
	"context"

	"tare/load"
)

// loadOnce is [Loader.Load] around a load: it ends with the service, and with
// nothing answered it is an error.
func loadOnce(
	ctx context.Context,
	t Trial,
	do func(ctx context.Context) (load.Result, error),
) (r load.Result, err error) {
	err = whileServing(ctx, t, func(ctx context.Context) (err error) {
		r, err = do(ctx)
		return err
	})
	if err == nil && r.Requests == 0 {
		err = tooManyErrors(r)
	}
	return r, err
}

// loadTargetOnce is loadOnce by tare's own generator.
func loadTargetOnce(
	ctx context.Context,
	t Trial,
	target load.Target,
	o load.Options,
	seed uint64,
) (load.Result, error) {
	o.Seed, o.Batches = seed, batchesOf(t)
	return loadOnce(ctx, t, func(ctx context.Context) (load.Result, error) { return load.Run(ctx, target, o) })
}

// offered is how a load's requests arrive.
func offered(o load.Options) Offered {
	return Offered{Rate: o.Rate, Arrival: o.Arrival, Connections: o.Connections}
}

// askOnce sends one request.
func askOnce(ctx context.Context, target load.Target) error {
	conn, err := target.Open(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	_, err = conn.Do(askBy(ctx))
	return err
}
