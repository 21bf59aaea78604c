// SPDX-License-Identifier: Apache-2.0

// Package class is the command group weir class, which traces code points along a path and writes
// systemd drop-ins for classes of service.
package class

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"weir/cmd/weir/cli"
	"weir/internal/dscp"
	"weir/internal/fault"
	"weir/kernel/hops"
	"weir/record"
)

// Command returns the command weir class.
func Command(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "class",
		Short: "Trace the DSCP of packets along a path; run services as less than best effort",
		Long: `Trace the code point (DSCP) of a class of service along a path, or print a systemd
drop-in for less than best effort. Policies (class:, borders:) and weir run --class set
the DSCP of packets.`,
		Example: `  sudo weir class trace mirror.example.net
  weir class drop-in backup.service`,
	}
	command.AddCommand(newTraceCommand(a), newDropInCommand(a))
	return command
}

// traceOptions are the flags of weir class trace.
type traceOptions struct {
	class, protocol, family string
	port                    uint16
	most, attempts          int
	wait                    time.Duration
}

func newTraceCommand(a *cli.App) *cobra.Command {
	var o traceOptions
	command := &cobra.Command{
		Use:   "trace DESTINATION",
		Short: "Show which hop of a path changes or removes a DSCP",
		Long: `Send probes with a DSCP to one hop of the path after the other, with increasing hop
limits (TTL). ICMP errors quote the header of the probe, including the DSCP with which it
arrived at the hop. The probes use UDP and TCP, over IPv4 and IPv6 if the destination has
both. A hop that sends no ICMP errors is called silent. The DSCP at the destination is
known if the destination sends an ICMP error, as Linux does for a datagram to a closed
port.

The verdict is "keeps it" if the destination reported the original DSCP, and "unchanged
up to hop N" if the end of the path is unknown. The exit status is 1 if any hop reported
another DSCP, and 3 if no path reached the destination. The command requires root or
CAP_NET_RAW.`,
		Example: `  sudo weir class trace mirror.example.net
  sudo weir class trace 2001:db8::80 --class CS1 --protocol tcp --port 443
  sudo weir class trace 192.0.2.1 --attempts 10 --wait 3s     behind routers that limit their errors`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			all, err := o.paths(command.Context(), args[0])
			if err != nil {
				return err
			}
			return tracePaths(command.Context(), a, args[0], all)
		},
	}
	command.Flags().StringVar(&o.class, "class", "lbe", "class or DSCP of the probes")
	command.Flags().StringVar(&o.protocol, "protocol", "both", "udp, tcp or both")
	command.Flags().StringVar(&o.family, "family", "both", "IP version: 4, 6 or both")
	command.Flags().Uint16Var(&o.port, "port", 0, "destination port; 0 is 33434 for UDP and 80 for TCP")
	command.Flags().IntVar(&o.most, "hops", 30, fmt.Sprintf("maximum number of hops, up to %d", hops.MaxHops))
	command.Flags().IntVar(&o.attempts, "attempts", 3, fmt.Sprintf("number of probes to a silent hop, up to %d", hops.MaxAttempts))
	command.Flags().DurationVar(&o.wait, "wait", time.Second, "waiting time for the answers to a probe")
	return command
}

// paths returns the requested traces: one per family and protocol.
func (o traceOptions) paths(ctx context.Context, destination string) (all []hops.Options, err error) {
	dscp, err := dscp.ParseDSCP(o.class)
	if err != nil {
		return nil, fault.New(fault.Usage, "as in --class lbe", "--class: %w", err)
	}
	protocols := []string{"udp", "tcp"}
	if o.protocol != "both" {
		if !slices.Contains(protocols, o.protocol) {
			return nil, fault.New(fault.Usage, "write --protocol udp, tcp or both", "--protocol %q is not known", o.protocol)
		}
		protocols = []string{o.protocol}
	}
	switch {
	case o.most < 1 || o.most > hops.MaxHops:
		return nil, fault.New(fault.Usage, "", "--hops %d is not from 1 to %d", o.most, hops.MaxHops)
	case o.attempts < 1 || o.attempts > hops.MaxAttempts:
		return nil, fault.New(fault.Usage, "", "--attempts %d is not from 1 to %d", o.attempts, hops.MaxAttempts)
	case o.wait < time.Millisecond || o.wait > time.Minute:
		return nil, fault.New(fault.Usage, "write it as 500ms", "--wait %s is not from 1ms to 1m", o.wait)
	}
	addresses, err := o.addresses(ctx, destination)
	for _, to := range addresses {
		for _, protocol := range protocols {
			all = append(all, hops.Options{To: to, Protocol: protocol, Port: o.port, DSCP: dscp, Hops: o.most, Attempts: o.attempts, Wait: o.wait})
		}
	}
	return all, err
}

// addresses are the destination's first ones of the families.
func (o traceOptions) addresses(ctx context.Context, destination string) (all []netip.Addr, err error) {
	networks := map[string][]string{"4": {"ip4"}, "6": {"ip6"}, "both": {"ip4", "ip6"}}[o.family]
	if networks == nil {
		return nil, fault.New(fault.Usage, "write --family 4, 6 or both", "--family %q is not known", o.family)
	}
	for _, network := range networks {
		found, failed := net.DefaultResolver.LookupNetIP(ctx, network, destination)
		if failed != nil || len(found) == 0 {
			err = failed
			continue
		}
		to := found[0].Unmap()
		if !to.IsGlobalUnicast() && !to.IsLoopback() && !to.IsLinkLocalUnicast() {
			return nil, fault.New(fault.Usage, "give the address of one host, or its name", "%s is not the address of a host", destination)
		}
		all = append(all, to)
	}
	if len(all) == 0 {
		return nil, fault.Wrap(fmt.Errorf("find %s: %w", destination, err), fault.Usage, "give an address, or the name of a host that has one of this family")
	}
	return all, nil
}

// tracedPath is a path in the document of weir class trace.
type tracedPath struct {
	hops.Path
	Changes []hops.Change `json:"changes"`
	Verdict string        `json:"verdict"`
	// KnownHop is the last hop with a known DSCP; 0 for none. Reached means that the destination
	// answered, with or without the DSCP.
	KnownHop int  `json:"known_hop"`
	Reached  bool `json:"reached"`
}

// Verdicts of paths. keptTo is followed by the last hop with a known DSCP, before the destination.
const (
	keeps    = "keeps it"
	keptTo   = "unchanged up to hop "
	changes  = "changes it"
	untested = "cannot say"
)

// judge returns a path with its verdict.
func judge(p hops.Path) tracedPath {
	traced := tracedPath{p, p.Changes(), untested, p.Known(), p.Reached()}
	switch {
	case len(traced.Changes) > 0:
		traced.Verdict = changes
	case p.Whole():
		traced.Verdict = keeps
	case traced.KnownHop > 0:
		traced.Verdict = keptTo + fmt.Sprint(traced.KnownHop)
	}
	return traced
}

// overall returns the result of all paths: an error if one changes the DSCP, or if none reaches the
// destination with it.
func overall(paths []tracedPath) error {
	holds := func(p tracedPath) bool { return p.Reached && p.KnownHop > 0 }
	switch {
	case slices.ContainsFunc(paths, func(p tracedPath) bool { return p.Verdict == changes }):
		return cli.ErrVerdict
	case slices.ContainsFunc(paths, holds):
		return nil
	case slices.ContainsFunc(paths, func(p tracedPath) bool { return p.KnownHop > 0 }):
		return fault.New(fault.Testbed, "try --attempts 10 --wait 3s, another --protocol, or a --port that the destination answers",
			"the destination did not answer: the DSCP is known for a part of the path only")
	}
	return fault.New(fault.Testbed, "try --attempts 10 --wait 3s, another --protocol or --port", "no hop reported the DSCP of the probes")
}

func tracePaths(ctx context.Context, a *cli.App, destination string, all []hops.Options) error {
	var paths []tracedPath
	var unreached error // of a family that this host has no route for
	for _, o := range all {
		if !a.Quiet {
			a.Say("tracing %s by %s", o.To, strings.ToUpper(o.Protocol))
		}
		p, err := hops.Run(ctx, o)
		if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EADDRNOTAVAIL) {
			a.Say("not traced: %v", err)
			unreached = err
			continue
		}
		if err != nil {
			return err
		}
		traced := judge(p)
		if paths = append(paths, traced); a.Format == "json" {
			continue
		}
		if err := a.Table(traced.table()); err != nil {
			return err
		}
	}
	if len(paths) == 0 {
		return unreached
	}
	if a.Format == "json" {
		err := a.JSON(struct {
			Format      string       `json:"format"`
			Destination string       `json:"destination"`
			Paths       []tracedPath `json:"paths"`
		}{"weir-class-trace/3", destination, paths})
		if err != nil {
			return err
		}
	}
	return overall(paths)
}

// table shows a path hop by hop.
func (p tracedPath) table() record.Table {
	t := record.Table{Title: fmt.Sprintf("%s, %s port %d, sent as %s: %s", p.To, strings.ToUpper(p.Protocol), p.Port, p.Sent, p.Verdict),
		Columns: []string{"hop", "address", "arrived as", "answer"}}
	for _, h := range p.Hops {
		row := []string{fmt.Sprint(h.Hop), "", "", string(h.Answer)}
		if h.Address.IsValid() {
			row[1] = h.Address.String()
		}
		if h.Known {
			row[2] = h.DSCP.String()
		}
		t.Rows = append(t.Rows, row)
	}
	notes := []string{}
	for _, c := range p.Changes {
		notes = append(notes, c.String())
	}
	switch {
	case p.Verdict == untested || p.Whole():
	case p.Reached:
		notes = append(notes, fmt.Sprintf("the destination answered without the DSCP: it is unknown beyond hop %d", p.KnownHop))
	default:
		notes = append(notes, fmt.Sprintf("the destination did not answer: the DSCP is unknown beyond hop %d", p.KnownHop))
	}
	t.Note = strings.Join(notes, "; ")
	return t
}
