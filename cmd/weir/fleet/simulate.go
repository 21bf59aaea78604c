// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/modules/fleet/sim"
	"weir/record"
)

// simulateOptions are the flags of weir fleet simulate.
type simulateOptions struct {
	hosts    int
	rate     string
	seed     uint64
	duration time.Duration
	loss     float64
}

// simulated is the document of weir fleet simulate --format json.
type simulated struct {
	Format   string  `json:"format"`
	Seed     uint64  `json:"seed"`
	Hosts    int     `json:"hosts"`
	Max      float64 `json:"max_share"`      // highest sum of all rates, of the limit
	Used     float64 `json:"used_share"`     // mean use, of the limit
	Possible float64 `json:"possible_share"` // mean of the lower of limit and demand
	Static   float64 `json:"static_share"`   // mean use if each host had an equal part
	Messages float64 `json:"messages_per_host_and_second"`
	MeanNs   int64   `json:"decision_mean_ns"`
	MaxNs    int64   `json:"decision_longest_ns"`
}

func newSimulateCommand(a *cli.App) *cobra.Command {
	var o simulateOptions
	command := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate a fleet of many hosts",
		Long: `Simulate a fleet in virtual time, with the leader and the hosts of production. Demand has
a daily wave and heavy tails: each host starts bursts of Pareto-distributed length. The
result is the use of the limit beside that of a static split, the highest sum of all
rates, and the time of a decision on this machine.`,
		Example: `  weir fleet simulate --hosts 1000
  weir fleet simulate --hosts 10000 --duration 10s --loss 1 --seed 7`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command.Context(), a) },
	}
	command.Flags().IntVar(&o.hosts, "hosts", 1000, "number of hosts, 1 to 100000")
	command.Flags().StringVar(&o.rate, "rate", "100Gbit", "rate of the shared limit")
	command.Flags().DurationVar(&o.duration, "duration", time.Minute, "simulated time, and period of the daily wave")
	command.Flags().Float64Var(&o.loss, "loss", 0, "lost messages in percent")
	command.Flags().Uint64Var(&o.seed, "seed", 0, "seed of the random demand; 0 for a random one")
	return command
}

func (o *simulateOptions) run(ctx context.Context, a *cli.App) error {
	limit, err := units.ParseBitRate(o.rate)
	switch {
	case err != nil:
		return fault.Wrap(fmt.Errorf("--rate: %w", err), fault.Usage, "as in --rate 100Gbit")
	case o.hosts < 1 || o.hosts > 100_000:
		return fault.New(fault.Usage, "", "--hosts %d is not from 1 to 100000", o.hosts)
	case o.loss < 0 || o.loss >= 100:
		return fault.New(fault.Usage, "", "--loss %g is not from 0 to below 100", o.loss)
	case o.duration < time.Second:
		return fault.New(fault.Usage, "", "--duration %s is below 1s", o.duration)
	}
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	r, err := o.simulate(ctx, a, float64(limit))
	if err != nil {
		return err
	}
	if a.Format == "json" {
		return a.JSON(r)
	}
	percent := func(x float64) string { return fmt.Sprintf("%.2f %%", 100*x) }
	return a.Table(record.Table{Title: "Simulation", Columns: []string{"of the limit", "value"}, Rows: [][]string{
		{"used", percent(r.Used)}, {"possible", percent(r.Possible)}, {"used by a static split", percent(r.Static)}, {"highest sum of rates", percent(r.Max)},
		{"messages per host and second", fmt.Sprintf("%.1f", r.Messages)},
		{"decision, mean", time.Duration(r.MeanNs).Round(10 * time.Microsecond).String()},
		{"decision, longest", time.Duration(r.MaxNs).Round(10 * time.Microsecond).String()}, {"seed", fmt.Sprint(r.Seed)},
	}})
}

// simulate runs the fleet in steps, and averages its use.
func (o *simulateOptions) simulate(ctx context.Context, a *cli.App, limit float64) (r simulated, err error) {
	const step = 50 * time.Millisecond
	random := rand.New(rand.NewPCG(o.seed, 3))
	s := sim.New(sim.Config{Hosts: o.hosts, Rate: limit, Interval: 250 * time.Millisecond, Lease: time.Second, Delay: time.Millisecond,
		Pause: 20 * time.Millisecond, Loss: o.loss / 100, Seed: o.seed})
	s.StartLeader()
	part := limit / float64(o.hosts)
	demand, until := make([]float64, o.hosts), make([]time.Duration, o.hosts)
	samples := 0
	shown := time.Now()
	for at := time.Duration(0); at < o.duration; at += step {
		wave := 1 + math.Sin(2*math.Pi*float64(at)/float64(o.duration))
		for i := range demand {
			if at < until[i] {
				continue
			}
			demand[i] = 0
			if random.Float64() < 0.35*wave { // a burst at up to 8 times the equal part
				demand[i] = part * 8 * random.Float64()
			}
			until[i] = at + time.Duration(float64(time.Second)*math.Pow(1-random.Float64(), -1/1.5)) // Pareto, mean 3 s
			s.Demand(i, demand[i])
		}
		s.Run(step)
		if ctx.Err() != nil {
			return r, cli.Stopped(ctx, ctx.Err())
		}
		if at >= 2*time.Second || at >= o.duration/2 { // after the start
			used, possible := s.Used()
			r.Used, r.Possible, samples = r.Used+used, r.Possible+possible, samples+1
			for _, d := range demand {
				r.Static += min(d, part) / limit
			}
		}
		if a.Interactive() && time.Since(shown) > time.Second {
			shown = time.Now()
			a.Say("%s of %s simulated", at.Round(time.Second), o.duration)
		}
	}
	n := float64(samples)
	r.Format, r.Seed, r.Hosts = "weir-fleet-simulate/1", o.seed, o.hosts
	r.Used, r.Possible, r.Static, r.Max = r.Used/n, r.Possible/n, r.Static/n, s.Max
	r.Messages = float64(s.Messages) / float64(o.hosts) / o.duration.Seconds()
	r.MeanNs, r.MaxNs = int64(s.Spent)/int64(max(1, s.Decisions)), int64(s.Longest)
	return r, nil
}
