// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/internal/infile"
	"weir/kernel/netns"
	"weir/record"
	"weir/record/hist"
	"weir/tester/replay"
	"weir/tester/session"
	"weir/tester/spec"
)

// replayOptions are the flags of weir tester replay.
type replayOptions struct {
	from, to, speed        string
	sourceMAC, destination string
	addresses              []string
	loops                  int
	iKnow                  bool
	realtime
}

func newReplayCommand(a *cli.App) *cobra.Command {
	var o replayOptions
	command := &cobra.Command{
		Use:   "replay CAPTURE",
		Short: "Send the frames of a capture at their times, and count the received frames",
		Long: `Send the frames of a pcap or pcapng file at their times, and count the received frames.

The result contains the number of late frames and their delay. With --to it also
contains the received frames, their order, and the deviation of their spacing from the
capture's.

The capture must hold whole Ethernet frames; gzip is supported. The exit status is 1 if
no frame arrived, and 3 if this machine could not count the received frames.`,
		Example: `  sudo weir tester replay trace.pcapng --from left:tg0 --to right:tg1
  sudo weir tester replay trace.pcap --from left:tg0 --speed 2 --loops 10
  sudo weir tester replay trace.pcap --from eth2 --speed max --destination-mac 02:00:00:00:00:01 --address 10.0.0.1=198.18.0.1`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return replayCapture(command.Context(), a, args[0], o)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.from, "from", "", "device to send from, NAMESPACE:DEVICE or DEVICE")
	flags.StringVar(&o.to, "to", "", "device at which arrivals are counted, NAMESPACE:DEVICE or DEVICE")
	flags.StringVar(&o.speed, "speed", "1", `times the capture's speed: 2 takes half of its time; "max" is as fast as possible`)
	flags.IntVar(&o.loops, "loops", 1, "number of times to send the capture, with its mean gap between")
	flags.StringVar(&o.sourceMAC, "source-mac", "", "source MAC of every frame (default the capture's)")
	flags.StringVar(&o.destination, "destination-mac", "", "destination MAC of every frame (default the capture's)")
	flags.StringSliceVar(&o.addresses, "address", nil, "OLD=NEW: an IP address to replace wherever it is source or destination")
	flags.BoolVar(&o.iKnow, "i-know", false, "use a device even if a default route leaves through it")
	o.addFlag(flags)
	return command
}

// captureFile bounds the input of replay.Read.
var captureFile = infile.Kind{What: "capture", Most: 2 << 30, Name: "name a pcap or pcapng file", Larger: "split it with 'editcap -c'"}

func replayCapture(ctx context.Context, a *cli.App, path string, o replayOptions) (err error) {
	config, err := o.config()
	if err != nil {
		return err
	}
	file, err := captureFile.Open(path)
	if err != nil {
		return err
	}
	config.Capture, err = replay.Read(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return fault.Wrap(fmt.Errorf("%s: %w", path, err), fault.Of(err), fault.Advice(err))
	}
	if err := errors.Join(privileged(), o.apply()); err != nil {
		return err
	}
	for _, end := range []struct {
		text string
		port *replay.Port
	}{{o.from, &config.From}, {o.to, &config.To}} {
		if end.text == "" {
			continue
		}
		ns, err := openReplayPort(end.text, end.port, o.iKnow)
		if err != nil {
			return err
		}
		if ns != nil {
			defer func() { _ = ns.Close() }()
		}
	}
	result, err := replay.Run(ctx, config)
	if err != nil {
		return err
	}
	if err := printReplay(a, result); err != nil {
		return err
	}
	return result.Check()
}

func openReplayPort(text string, port *replay.Port, iKnow bool) (ns *netns.Namespace, err error) {
	namespace, device := spec.SplitDevice(text)
	if namespace != "" {
		if ns, err = netns.Open(namespace); err != nil {
			return nil, fault.New(fault.Usage, "run 'ip netns list' to see the network namespaces", "%w", err)
		}
	}
	*port = replay.Port{Namespace: ns, Device: device}
	return ns, session.CheckPort(session.Port{Namespace: ns, Device: device}, iKnow)
}

func (o replayOptions) config() (c replay.Config, err error) {
	switch {
	case o.from == "":
		return c, fault.New(fault.Usage, "give --from", "nothing says which device to send from")
	case o.from == o.to:
		return c, fault.New(fault.Usage, "name two devices; the frames of one never arrive at itself", "%s is to send to itself", o.from)
	case o.loops < 1:
		return c, fault.New(fault.Usage, "use 1 or more", "--loops %d", o.loops)
	}
	c.Rounds = o.loops
	if o.speed != "max" {
		if c.Speed, err = strconv.ParseFloat(o.speed, 64); err != nil || !(c.Speed > 0) {
			return c, fault.New(fault.Usage, "use a factor such as 0.5 or 2, or max", "--speed %q is not a speed", o.speed)
		}
	}
	if c.Rewrite.Source, err = macFlag("source-mac", o.sourceMAC); err != nil {
		return c, err
	}
	if c.Rewrite.Destination, err = macFlag("destination-mac", o.destination); err != nil {
		return c, err
	}
	c.Rewrite.Addresses = map[netip.Addr]netip.Addr{}
	for _, pair := range o.addresses {
		old, new, _ := strings.Cut(pair, "=")
		was, errWas := netip.ParseAddr(old)
		is, errIs := netip.ParseAddr(new)
		if err := errors.Join(errWas, errIs); err != nil || was.Is4() != is.Is4() || was.Zone()+is.Zone() != "" {
			return c, fault.New(fault.Usage, "write it as 10.0.0.1=198.18.0.1, both of one family", "--address %q is not a pair of addresses", pair)
		}
		c.Rewrite.Addresses[was] = is
	}
	return c, nil
}

func macFlag(name, text string) (net.HardwareAddr, error) {
	if text == "" {
		return nil, nil
	}
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 {
		return nil, fault.New(fault.Usage, "write it as 02:00:00:00:00:01", "--%s %q is not a MAC address", name, text)
	}
	return mac, nil
}

func printReplay(a *cli.App, r replay.Result) error {
	if a.Format == "json" {
		return a.JSON(r)
	}
	tables, notes := replayTables(r)
	for _, t := range tables {
		if err := a.Table(t); err != nil {
			return err
		}
		fmt.Fprintln(a.Stdout)
	}
	for _, note := range notes {
		fmt.Fprintln(a.Stdout, "Note: "+note)
	}
	return nil
}

func replayTables(r replay.Result) (tables []record.Table, notes []string) {
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	asked := "as fast as possible"
	if r.Speed > 0 {
		asked = r.Span.Round(time.Microsecond).String()
	}
	tables = append(tables, record.Table{Title: "Replay", Columns: []string{"frames", "rounds", "sent", "time asked", "time taken", "late"},
		Rows: [][]string{{strconv.Itoa(r.Frames), strconv.Itoa(r.Rounds), number(r.Sent), asked, r.Elapsed.Round(time.Microsecond).String(), number(r.Late)}}})
	timing := record.Table{Title: "Timing", Columns: []string{"quantity", "frames", "mean", "p50", "p99", "max"}}
	row := func(what string, h *hist.Histogram) {
		if h.Count() > 0 {
			s := func(ns float64) string { return record.Seconds.Format(ns / 1e9) }
			timing.Rows = append(timing.Rows, []string{what, number(h.Count()), s(h.Mean()), s(float64(h.Quantile(.5))), s(float64(h.Quantile(.99))), s(float64(h.Max()))})
		}
	}
	row("sent after it was due", r.Lateness)
	if c := r.Arrived; c != nil {
		tables = append(tables, record.Table{Title: "Arrivals", Columns: []string{"arrived", "missing", "reordered", "copies", "others"},
			Rows: [][]string{{number(c.Frames), number(c.Missing), number(c.Reordered), number(c.Extra), number(c.Foreign)}}})
		row("spacing of arrivals off the capture's", c.Spacing)
		if c.Alike > 0 {
			notes = append(notes, fmt.Sprintf("%d frames equal others of the capture: missing or reordered ones among them cannot be identified", c.Alike))
		}
		if c.Dropped > 0 {
			notes = append(notes, fmt.Sprintf("this machine dropped %d frames at the receiving socket: they are among the missing or the others", c.Dropped))
		}
	}
	if len(timing.Rows) > 0 {
		tables = append(tables, timing)
	}
	if r.Late > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d frames left more than %s late; none was left out", r.Late, r.Sent, replay.LateAfter))
	}
	if r.Backwards > 0 {
		notes = append(notes, fmt.Sprintf("%d frames of the capture have a time before that of the frame in front of them: they were sent with it", r.Backwards))
	}
	return tables, notes
}
