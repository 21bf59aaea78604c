// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/modules/fleet/bus"
	"weir/modules/fleet/lead"
	"weir/modules/fleet/metrics"
)

// serveOptions are the flags of weir fleet serve.
type serveOptions struct {
	bus.ServerConfig
	lease   time.Duration
	metrics string
}

func newServeCommand(a *cli.App) *cobra.Command {
	var o serveOptions
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run a server of a fleet",
		Long: `Run a server of a fleet in the foreground: NATS with a JetStream store, and a candidate
for the leader that grants the rates. At the first start it makes a certificate
authority and credentials of an operator in its folder. All connections use TLS and
the credentials of 'weir fleet enroll'.

For a cluster run three servers with copies of ca.pem, ca.key and users.json, each with
--node, --cluster-listen and the others as --peer. One leads; another follows within
two seconds if it fails.`,
		Example: `  weir fleet serve --name research                              on loopback, for a rehearsal
  weir fleet serve --name research --listen 10.0.0.1:4222
  weir fleet serve --name research --listen 10.0.0.1:4222 --node a --cluster-listen 10.0.0.1:6222 --peer 10.0.0.2:6222,10.0.0.3:6222`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command.Context(), a) },
	}
	command.Flags().StringVar(&o.Fleet, "name", "", "name of the fleet: letters, digits, _ and -")
	command.Flags().StringVar(&o.Listen, "listen", "127.0.0.1:4222", "address and port for hosts and operators")
	command.Flags().StringVar(&o.Dir, "dir", defaultDir, "folder of the store, the authority and the users; mode 700")
	command.Flags().DurationVar(&o.lease, "lease", time.Second, "lease of granted rates, 500ms to 1m: hosts without contact have their guarantee after it")
	command.Flags().StringVar(&o.Node, "node", "", "name of this server in a cluster")
	command.Flags().StringVar(&o.Cluster, "cluster-listen", "", "address and port for the other servers of a cluster")
	command.Flags().StringVar(&o.metrics, "metrics", "", "loopback address and port for Prometheus, such as 127.0.0.1:9466")
	command.Flags().StringSliceVar(&o.Peers, "peer", nil, "cluster-listen of the other servers")
	return command
}

// check rejects wrong flags.
func (o *serveOptions) check() error {
	switch {
	case o.Fleet == "":
		return fault.New(fault.Usage, "as in --name research", "--name is missing")
	case o.lease < 500*time.Millisecond || o.lease > time.Minute:
		return fault.New(fault.Usage, "write it as 1s; hosts report every 250ms", "--lease %s is not from 500ms to 1m", o.lease)
	case o.Cluster != "" && (o.Node == "" || len(o.Peers) == 0):
		return fault.New(fault.Usage, "write --node a --peer 10.0.0.2:6222,10.0.0.3:6222", "--cluster-listen requires --node and --peer")
	case o.Cluster == "" && (o.Node != "" || len(o.Peers) > 0):
		return fault.New(fault.Usage, "write --cluster-listen 10.0.0.1:6222, or leave --node and --peer out", "--node and --peer are for a cluster")
	}
	return errors.Join(bus.CheckName("fleet", o.Fleet), cli.CheckMetrics(o.metrics, metricsPort))
}

// metricsPort is the port in examples of --metrics.
const metricsPort = 9466

func (o *serveOptions) run(ctx context.Context, a *cli.App) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	o.Log = slog.New(slog.NewTextHandler(a.Stderr, nil))
	server, err := bus.Start(o.ServerConfig)
	if err != nil {
		return err
	}
	defer server.Close()
	nc, err := server.Connect()
	if err != nil {
		return fmt.Errorf("connect to the own server: %w", err)
	}
	defer nc.Close()
	name, replicas := o.Node, 1
	if name == "" {
		name, _ = os.Hostname()
	}
	if o.Cluster != "" {
		replicas = len(o.Peers) + 1
	}
	inbox, err := server.Connect()
	if err != nil {
		return fmt.Errorf("connect to the own server: %w", err)
	}
	defer inbox.Close()
	conn := bus.Wrap(o.Fleet, nc)
	at, stop, err := serveMetrics(ctx, conn, o.metrics)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	a.Say("fleet %s at %s; credentials of the operator: %s/operator.credentials", o.Fleet, server.Address(), o.Dir)
	if at != "" {
		a.Say("metrics: http://%s/metrics", at)
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error {
		server.Maintain(ctx)
		return nil
	})
	all.Go(func() error {
		return lead.Candidate{Conn: conn, Inbox: bus.Wrap(o.Fleet, inbox), Name: name, Replicas: replicas, Lease: o.lease, Log: o.Log}.Run(ctx)
	})
	return all.Wait()
}

// serveMetrics answers scrapes with the leader's view, which may be another server of the cluster.
func serveMetrics(ctx context.Context, conn *bus.Conn, address string) (at string, stop func() error, err error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.Collector{Ask: func() (r lead.Response, err error) {
		err = conn.Ask(lead.Request{Op: lead.OpStatus}, &r)
		return r, err
	}})
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2})
	return cli.ServeMetrics(ctx, address, metricsPort, handler)
}
