// SPDX-License-Identifier: Apache-2.0

package ix

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/complete"
	"weir/internal/fault"
	"weir/ix/config"
	"weir/ix/server"
	"weir/record"
)

const (
	defaultSocket = "/run/weir-ix/weir-ix.sock"
	defaultState  = "/var/lib/weir-ix"
)

func newServeCommand(a *cli.App) *cobra.Command {
	var socket, state string
	command := &cobra.Command{
		Use:   "serve FILE",
		Short: "Run the path server beside BIRD",
		Long: `Run the path server of an exchange in the foreground. It receives all paths from BIRD on
one internal session with additional paths ('feed'), and sends each member at most N paths
per prefix on a session at Weir's own address ('listen'). N is that of FILE or the member's
capability 76 (PATHS-LIMIT), whichever is less; 1 without additional paths. Members'
routes are ignored.

The folder --state has a snapshot of the paths, at most a minute old: after a restart
members receive the same paths with the same identifiers at once, and End-of-RIB after
that of BIRD. SIGTERM and kill -9 end the sessions without a NOTIFICATION, so members
with graceful restart keep their paths for 300 s. 'weir ix stop' ends them for good.

All settings are in FILE; restart the server after a change of it.`,
		Example: `  weir ix serve /etc/weir/exchange.yaml
  weir ix serve exchange.yaml --socket ./ix.sock --state ./state`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete.Policy,
		RunE: func(command *cobra.Command, args []string) error {
			return serve(command.Context(), a, args[0], socket, state)
		},
	}
	command.Flags().StringVar(&socket, "socket", defaultSocket, "unix socket for weir ix status, drain and stop; its folder must exist")
	command.Flags().StringVar(&state, "state", defaultState, "folder of the snapshot and of drained sponsors; it must exist")
	return command
}

func serve(ctx context.Context, a *cli.App, file, socket, state string) error {
	e, err := config.Load(file)
	if err != nil {
		return err
	}
	if info, err := os.Stat(state); err != nil || !info.IsDir() {
		return fault.New(fault.Usage, "make it, or name another folder with --state", "the folder of --state %s is missing", state)
	}
	s, err := server.New(e, server.Options{State: state, Log: slog.New(slog.NewTextHandler(a.Stderr, nil))})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return s.Run(ctx) })
	all.Go(func() error { return s.Control(ctx, socket, stop) })
	return all.Wait()
}

// client is the flag of commands that connect to a running server.
type client struct{ server.Client }

func (c *client) flags(command *cobra.Command) {
	command.Flags().StringVar(&c.Socket, "socket", defaultSocket, "unix socket of weir ix serve")
}

func newStatusCommand(a *cli.App) *cobra.Command {
	var c client
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the sessions of a running path server",
		Long: `Show the feed, the table, the ports and the member sessions of a running path server, and
counts of ignored paths and messages by reason.`,
		Example: `  weir ix status
  weir ix status --format json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			s, err := c.Status(command.Context())
			if err != nil {
				return err
			}
			if a.Format == "json" {
				return a.JSON(s)
			}
			return showStatus(a, &s)
		},
	}
	c.flags(command)
	return command
}

func newDrainCommand(a *cli.App) *cobra.Command {
	var c client
	var end bool
	command := &cobra.Command{
		Use:   "drain SPONSOR[/PORT]",
		Short: "Move the traffic of a sponsor or port away before maintenance",
		Long: `Drain a sponsor or one of its ports: its paths come last in every set, so members keep
them only if they have fewer than N others. The state survives a restart of the server.
--end restores the former sets; that of a sponsor also ends the state of its ports.`,
		Example: `  weir ix drain orange
  weir ix drain orange/ber1
  weir ix drain orange --end`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := c.Drain(command.Context(), args[0], !end); err != nil {
				return err
			}
			state := "drained"
			if end {
				state = "no longer drained"
			}
			if a.Format == "json" {
				return a.JSON(map[string]any{"format": "weir-ix-drain/1", "name": args[0], "drained": !end})
			}
			_, err := fmt.Fprintf(a.Stdout, "%s is %s\n", args[0], state)
			return err
		},
	}
	c.flags(command)
	command.Flags().BoolVar(&end, "end", false, "end the drained state")
	return command
}

func newStopCommand(a *cli.App) *cobra.Command {
	var c client
	var message string
	command := &cobra.Command{
		Use:   "stop",
		Short: "Stop a running path server for good",
		Long: `End all member sessions by an administrative shutdown with a message to the members'
operators (RFC 9003), then the server. Members withdraw the paths at once. For a restart
use SIGTERM instead: members keep their paths.`,
		Example: `  weir ix stop --message "moves to another host, back at 14:00 UTC"`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := c.Stop(command.Context(), message); err != nil {
				return err
			}
			if a.Format == "json" {
				return a.JSON(map[string]any{"format": "weir-ix-stop/1", "stopped": true})
			}
			_, err := fmt.Fprintln(a.Stdout, "the sessions have ended")
			return err
		},
	}
	c.flags(command)
	command.Flags().StringVar(&message, "message", "", "text to the members' operators, at most 255 bytes")
	return command
}

// showStatus prints the tables of a status.
func showStatus(a *cli.App, s *server.Status) error {
	feed := s.Feed.Address.String() + ": no session"
	switch {
	case !s.Feed.Address.IsValid():
		feed = s.Feed.File
	case s.Feed.Established:
		feed = s.Feed.Address.String() + ": established for " + seconds(s.Feed.Since)
	}
	if s.Feed.Reason != "" {
		feed += " (" + s.Feed.Reason + ")"
	}
	sending := "members wait for the feed"
	switch {
	case s.Complete:
		sending = "complete"
	case s.Sending:
		sending = "sent from the snapshot, the feed is not complete"
	}
	if _, err := fmt.Fprintf(a.Stdout, "feed %s\ntable: %d paths to %d prefixes, %d attribute sets, %s; %s\n\n", feed,
		s.Table.Paths, s.Table.Prefixes, s.Table.AttributeSets, size(uint64(s.Table.Bytes)), sending); err != nil {
		return err
	}
	t := record.Table{Title: "Members", Columns: []string{"member", "address", "session", "IPv4 paths", "IPv6 paths", "table sent", "sent", "reason"}}
	for _, m := range s.Members {
		state, synced := "none", "no"
		if m.Established {
			state = seconds(m.Since)
		}
		if m.Synced {
			synced = "yes"
		}
		t.Rows = append(t.Rows, []string{m.Name, m.Address.String(), state, strconv.Itoa(m.PathsIPv4), strconv.Itoa(m.PathsIPv6), synced, size(uint64(m.Sent)), m.Reason})
	}
	if err := a.Table(t); err != nil {
		return err
	}
	for _, p := range s.Ports {
		if p.Drained {
			fmt.Fprintf(a.Stdout, "drained: %s/%s\n", p.Sponsor, p.Port)
		}
	}
	c := s.Counts
	counts := record.Table{Title: "Ignored", Columns: []string{"reason", "count"}}
	for _, v := range []struct {
		reason string
		n      int
	}{{"connections from unknown addresses", c.UnknownMember}, {"member connections refused", c.Refused}, {"paths with the next hop of no port", c.UnknownNextHop},
		{"paths with a next hop of the other family", c.WrongNextHop}, {"paths with NO_EXPORT or NO_ADVERTISE", c.NoExport},
		{"malformed UPDATEs of the feed", c.MalformedUpdates}, {"malformed attributes of the feed", c.DiscardedAttrs},
		{"paths larger than a message", c.TooLarge}, {"UPDATEs of members", c.MemberRoutes}, {"malformed UPDATEs of members", c.BadMemberUpdates},
		{"paths beyond the table", c.TableFull}, {"members resynchronized", c.Resynchronized}} {
		if v.n > 0 {
			counts.Rows = append(counts.Rows, []string{v.reason, strconv.Itoa(v.n)})
		}
	}
	if len(counts.Rows) == 0 {
		return nil
	}
	fmt.Fprintln(a.Stdout)
	return a.Table(counts)
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}
