// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/modules/ioam/collect"
	"weir/modules/ioam/node"
)

// ioamWatchOptions are the flags of weir ioam watch.
type ioamWatchOptions struct {
	count       uint64
	duration    time.Duration
	otlp        string
	tracePer    string
	traceEvery  time.Duration
	metrics     string
	ipfix       string
	out         string
	destination string
}

func newWatchCommand(a *cli.App) *cobra.Command {
	var o ioamWatchOptions
	command := &cobra.Command{
		Use:   "watch",
		Short: "Show each packet's path as it ends",
		Long: `Show each packet with IOAM that ends here, and each postcard of direct export, as one
line, or with --format json as one JSON document per line. Ctrl-C ends it.`,
		Example: `  sudo weir ioam watch
  sudo weir ioam watch --format json --count 1000 > traces.jsonl
  sudo weir ioam watch --quiet --otlp http://localhost:4318/v1/traces --ipfix localhost:4739
  sudo weir ioam watch --quiet --otlp http://localhost:4318/v1/traces --trace-per flow
  sudo weir ioam watch --quiet --otlp-metrics http://localhost:4318/v1/metrics
  sudo weir ioam watch --quiet --duration 1m --out paths`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return ioamWatch(command.Context(), a, o) },
	}
	command.Flags().Uint64Var(&o.count, "count", 0, "end after this number of packets; 0 never")
	command.Flags().DurationVar(&o.duration, "duration", 0, "end after this time; 0 never")
	command.Flags().StringVar(&o.otlp, "otlp", "", "send traces to an OpenTelemetry collector: URL of its OTLP/HTTP traces, as http://localhost:4318/v1/traces")
	command.Flags().StringVar(&o.tracePer, "trace-per", perPacket, "unit of a trace of --otlp: packet, or flow with aggregated delays")
	command.Flags().DurationVar(&o.traceEvery, "trace-every", 10*time.Second, "interval of one trace per flow, with --trace-per flow")
	command.Flags().StringVar(&o.metrics, "otlp-metrics", "", "send packets, delays by path and hop, and loss to an OpenTelemetry collector: URL of its OTLP/HTTP metrics, as http://localhost:4318/v1/metrics")
	command.Flags().StringVar(&o.ipfix, "ipfix", "", "send a record per hop to an IPFIX collector over UDP: host:port")
	command.Flags().StringVar(&o.out, "out", "", "folder for an evidence bundle of paths, hops and flows: tables, CSV, histograms, report.html")
	command.Flags().StringVar(&o.destination, "to", "", "only packets to this address or prefix")
	return command
}

// Units of a trace of --otlp.
const perPacket, perFlow = "packet", "flow"

func (o *ioamWatchOptions) check() error {
	switch {
	case o.tracePer != perPacket && o.tracePer != perFlow:
		return fault.New(fault.Usage, "write --trace-per packet or --trace-per flow", "--trace-per %q is neither", o.tracePer)
	case o.tracePer == perFlow && o.otlp == "":
		return fault.New(fault.Usage, "give --otlp URL as well", "--trace-per flow has no effect without --otlp")
	case o.traceEvery < time.Second || o.traceEvery > 24*time.Hour:
		return fault.New(fault.Usage, "write --trace-every 10s", "--trace-every %s is outside 1s to 24h", o.traceEvery)
	case o.duration < 0:
		return fault.New(fault.Usage, "write --duration 30s, or leave it out to go on until ^C", "--duration %s is negative", o.duration)
	}
	if err := checkCollector("--otlp", o.otlp, "traces"); err != nil {
		return err
	}
	return checkCollector("--otlp-metrics", o.metrics, "metrics")
}

// checkCollector rejects an invalid URL of a collector; "" is none.
func checkCollector(flag, text, signal string) error {
	if text == "" {
		return nil
	}
	at, err := url.Parse(text)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return fault.New(fault.Usage, "write it as in "+flag+" http://localhost:4318/v1/"+signal, "%s %q is not the URL of a collector", flag, text)
	}
	return nil
}

func ioamWatch(ctx context.Context, a *cli.App, o ioamWatchOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	to, err := destinations(o.destination)
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := cli.CheckOut(o.out); err != nil {
			return err
		}
	}
	if o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	}
	sinks, err := openSinks(ctx, a, o, to)
	if err != nil {
		return err
	}
	senseless, err := read(ctx, a, o.count, func(r *collect.Record) error {
		if to.IsValid() && !to.Contains(r.Flow.Destination) {
			return nil
		}
		sinks.add(r)
		if a.Quiet {
			return nil
		}
		if a.Format == "json" {
			a.Printed = true
			return json.NewEncoder(a.Stdout).Encode(r)
		}
		_, err := fmt.Fprintln(a.Stdout, line(r))
		return err
	})
	if ended := sinks.end(); err == nil {
		err = ended
	}
	if o.out != "" && (err == nil || sinks.reading.Summary.Packets > 0) {
		sinks.reading.Senseless, sinks.reading.To = senseless, o.destination
		err = errors.Join(err, keep(a, sinks.reading, to, o.out))
	}
	// Losses are reported even with --quiet.
	if senseless > 0 {
		fmt.Fprintf(a.Stderr, "%d records were invalid\n", senseless)
	}
	if sinks.traces != nil && sinks.traces.Dropped > 0 {
		fmt.Fprintf(a.Stderr, "%d packets were not sent: the receiver is too slow, or there are too many flows\n", sinks.traces.Dropped)
	}
	return err
}

// sinks holds the receivers of records besides the terminal; nil for those not requested.
type sinks struct {
	traces  *collect.OTLP
	metrics *collect.Metrics
	hops    *collect.IPFIX
	reading *reading
	stop    context.CancelFunc
	senders errgroup.Group
}

// openSinks starts the requested receivers, for packets to a prefix. They run until
// sinks.end is called, even if ctx ends earlier.
func openSinks(ctx context.Context, a *cli.App, o ioamWatchOptions, to netip.Prefix) (s *sinks, err error) {
	pins, err := pinFolder(a)
	if err != nil {
		return nil, err
	}
	s = &sinks{}
	if o.ipfix != "" {
		if s.hops, err = collect.NewIPFIX(o.ipfix, uint32(os.Getpid())); err != nil {
			return nil, err
		}
	}
	if o.out != "" {
		if s.reading, err = startReading(pins); err != nil {
			return nil, err
		}
	}
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	host, _ := os.Hostname()
	if o.otlp != "" {
		s.traces = collect.NewOTLP(o.otlp, host)
		if o.tracePer == perFlow {
			s.traces.Flows = &collect.FlowTraces{Every: o.traceEvery}
		}
		s.senders.Go(func() error {
			var last error
			s.traces.Run(ctx, func(err error) { last = err })
			return last
		})
	}
	if o.metrics != "" {
		s.metrics = collect.NewMetrics(o.metrics, host)
		s.metrics.Edges = func() ([]collect.EdgeTotals, error) {
			edges, err := node.Edges(pins)
			return totalsOf(edges, to), err
		}
		s.senders.Go(func() error { return s.metrics.Run(ctx) })
	}
	return s, nil
}

func (s *sinks) add(r *collect.Record) {
	if s.traces != nil {
		s.traces.Add(r)
	}
	if s.metrics != nil {
		s.metrics.Add(r)
	}
	if s.hops != nil {
		s.hops.Add(r)
	}
	if s.reading != nil {
		s.reading.Summary.Add(r)
	}
}

// end flushes the receivers and waits for them.
func (s *sinks) end() error {
	s.stop()
	err := s.senders.Wait()
	if s.hops != nil {
		_ = s.hops.Close()
	}
	return err
}

// totalsOf returns the totals of the flows to a prefix; an invalid prefix matches all.
func totalsOf(edges []node.Edge, to netip.Prefix) (all []collect.EdgeTotals) {
	for i := range edges {
		if !to.IsValid() || to.Contains(edges[i].Flow.Destination) {
			all = append(all, edges[i].Totals())
		}
	}
	return all
}
