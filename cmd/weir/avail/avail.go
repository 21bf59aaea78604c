// SPDX-License-Identifier: Apache-2.0

// Package avail is the command weir avail, which estimates the available bandwidth of a path.
package avail

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/core/avail"
	"weir/core/prove/station"
	"weir/internal/dscp"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/record"
)

// Bounds of --most: at the minimum, a train of 40 datagrams takes 6 s.
const minMost, maxMost units.BitRate = 64e3, 400e9

// options are the flags of weir avail.
type options struct {
	class, listen, token, tokenFile string
	repetitions                     int
	most                            string
}

// Command returns the command weir avail.
func Command(a *cli.App) *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:   "avail DESTINATION:PORT",
		Short: "Estimate the available bandwidth of a path, without disturbing other traffic",
		Long: `Estimate the available bandwidth of the path to a responder ("weir avail --listen") with
short trains of datagrams at increasing rates. If the path carries the rate, the delays
within a train are constant. If the rate is too high, the queue grows from datagram to
datagram. The trains are marked as less than best effort (LE, or --class).

Concurrently, a hundred small unmarked packets per second measure the round-trip time.
If this time increases by 10 ms, the train ends immediately. The result includes the
additional delay of these packets during trains, and their losses.

The result is the rate that the class of the trains can use. If the path has one queue
per class, this is the rate that best effort leaves; if it has a single queue, it is the
unused rate. Rates count each IP packet plus 14 bytes of Ethernet header. The command
needs no special permissions. The exit status is 3 if no estimate is possible.`,
		Example: `  weir avail --listen 192.0.2.9:5202                     at the far end; prints a token
  weir avail 192.0.2.9:5202 --token-file FILE
  weir avail 192.0.2.9:5202 --token-file FILE --class best-effort --format json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if o.listen != "" {
				return listen(a, command, args, o)
			}
			if len(args) == 0 {
				return fault.New(fault.Usage, "write: weir avail 192.0.2.9:5202 --token-file FILE", "no destination is given")
			}
			return estimate(command.Context(), a, args[0], o)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.class, "class", "lbe", "class or DSCP of the trains")
	flags.IntVar(&o.repetitions, "repetitions", 5, "number of searches, each with its own result")
	flags.StringVar(&o.most, "most", "10Gbit", "highest tested rate")
	flags.StringVar(&o.listen, "listen", "", "run as the responder on this TCP and UDP address and port, until stopped")
	flags.StringVar(&o.token, "token", "", "shared secret; every user of this host can read it in the process list, so prefer --token-file")
	flags.StringVar(&o.tokenFile, "token-file", "", "file with the shared secret (default: the variable WEIR_TOKEN; --listen without a secret creates and prints one)")
	return command
}

// secret is the token, as weir prove has it.
func (o options) secret() (string, error) {
	if o.token != "" && o.tokenFile != "" {
		return "", fault.New(fault.Usage, "give one of them", "--token and --token-file are two secrets")
	}
	return cli.ReadToken(o.token, o.tokenFile)
}

// listen is the responder, until it is stopped.
func listen(a *cli.App, command *cobra.Command, args []string, o options) error {
	for _, other := range []string{"class", "repetitions", "most"} {
		if command.Flags().Changed(other) || len(args) > 0 {
			return fault.New(fault.Usage, "write: weir avail --listen ADDRESS:PORT [--token-file FILE]", "--listen accepts no other options: the other end determines the traffic")
		}
	}
	token, err := o.secret()
	if err != nil {
		return err
	}
	return a.ServeStation(command.Context(), o.listen, token, "responder", "weir avail")
}

func estimate(ctx context.Context, a *cli.App, destination string, o options) error {
	dscp, err := dscp.ParseDSCP(o.class)
	if err != nil {
		return fault.New(fault.Usage, "as in --class lbe", "--class: %w", err)
	}
	most, err := units.ParseBitRate(o.most)
	if err != nil {
		return fault.New(fault.Usage, "write it as --most 1Gbit", "--most: %w", err)
	}
	if most < minMost || most > maxMost {
		return fault.New(fault.Usage, "write it as --most 1Gbit", "--most %s is outside %s to %s", most, minMost, maxMost)
	}
	if o.repetitions < 1 || o.repetitions > 1000 {
		return fault.New(fault.Usage, "write --repetitions 5", "--repetitions %d is outside 1 to 1000", o.repetitions)
	}
	token, err := o.secret()
	if err != nil {
		return err
	}
	if token == "" {
		return fault.New(fault.Usage, "give the one that the responder printed or was given, as --token-file FILE or "+cli.TokenVariable, "no token is given for %s", destination)
	}
	peer, err := station.Resolve(ctx, destination, token)
	if err != nil {
		return err
	}
	r, err := avail.Run(ctx, avail.Options{Peer: *peer, DSCP: uint8(dscp), Repetitions: o.repetitions, Most: most, Report: func(what string) {
		if !a.Quiet {
			a.Say("%s", what)
		}
	}})
	if err != nil {
		return cli.Stopped(ctx, err)
	}
	if a.Format == "json" {
		return a.JSON(r)
	}
	return a.Table(table(r, dscp))
}

// table shows a result.
func table(r *avail.Result, dscp dscp.DSCP) record.Table {
	t := record.Table{Title: fmt.Sprintf("Available to %s as %s", r.Peer, dscp), Columns: []string{"quantity", "value"}}
	row := func(what, format string, args ...any) {
		t.Rows = append(t.Rows, []string{what, fmt.Sprintf(format, args...)})
	}
	text := units.BitRate(r.Available.Mean).String()
	if low, high, ok := r.Available.Interval(); r.AtLeast != "" {
		text = "at least " + text + ": " + r.AtLeast
	} else if ok {
		text += fmt.Sprintf(" [%s, %s]", units.BitRate(max(low, 0)), units.BitRate(high))
	}
	row("available, mean and 95 % interval", "%s", text)
	for i, s := range r.Samples {
		text := "carried " + units.BitRate(s.Low).String()
		switch s.High {
		case 0: // all was carried
		case s.Low:
			text += ", and not always"
		default:
			text += ", and not " + units.BitRate(s.High).String()
		}
		row(fmt.Sprintf("search %d", i+1), "%s", text)
	}
	c := r.Caused
	row("round trips of best effort between trains", "p50 %s, p99 %s, %d of %d lost", short(c.Idle.P50), short(c.Idle.P99), c.Idle.Lost, c.Idle.Sent)
	row("beside trains", "p50 %s, p99 %s, %d of %d lost", short(c.Beside.P50), short(c.Beside.P99), c.Beside.Lost, c.Beside.Sent)
	row("caused", "p50 %+.3f ms, p99 %+.3f ms", c.AddedP50().Seconds()*1e3, c.AddedP99().Seconds()*1e3)
	row("longest wait of a train's own datagrams", "%s", short(c.Own))
	row("sent", "%s, %s over the whole time", units.ByteSize(c.Octets), units.BitRate(c.Load))
	return t
}

// short is a time without digits that mean nothing.
func short(d time.Duration) string { return d.Round(time.Microsecond).String() }
