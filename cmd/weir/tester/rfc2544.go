// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/record/summary"
	"weir/tester/rfc2544"
	"weir/tester/spec"
)

// rfcFlags are the flags of weir tester rfc2544.
type rfcFlags struct {
	testerFlags
	toPeer, rateLimit          string
	forwarder                  string
	tests, sizes, reset        []string
	bidirectional, quick       bool
	repetitions, resolution    string
	searchTime, finalTime, out string
	iKnow                      bool
	realtime                   realtime
}

func (f *rfcFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.from, "from", "", "first port, NAMESPACE:DEVICE or DEVICE")
	flags.StringVar(&f.to, "to", "", "second port")
	flags.StringVar(&f.peer, "peer", "", "other end of the first port's veth pair, which gets an XDP program during the run to receive the frames")
	flags.StringVar(&f.toPeer, "to-peer", "", "the same for the second port, with --bidirectional")
	flags.StringVar(&f.forwarder, "forwarder", "", "NAMESPACE:IN,OUT: the device under test is this kernel, which forwards between two devices of a namespace; a real-time thread on the last CPU outside --cpus does that")
	flags.IntSliceVar(&f.cpus, "cpus", nil, "CPUs that the generator may use; the device under test needs another one")
	flags.StringSliceVar(&f.tests, "tests", []string{"throughput", "latency", "frame-loss", "back-to-back"}, "tests to run: throughput, latency, frame-loss, back-to-back, recovery, reset")
	flags.StringSliceVar(&f.sizes, "sizes", nil, "frame sizes with FCS (default 64,128,256,512,1024,1280,1518; IPv6 from 84)")
	flags.BoolVar(&f.bidirectional, "bidirectional", false, "send in both directions at once")
	flags.BoolVar(&f.ipv6, "ipv6", false, "IPv6 instead of IPv4")
	flags.BoolVar(&f.quick, "quick", false, "short trials and waits, for a first look; the report is marked")
	flags.StringVar(&f.speed, "speed", "", "speed of the line (default: the highest rate that the tester offers is 100 %)")
	flags.StringVar(&f.rateLimit, "rate", "", "highest rate to offer, such as 500kpps")
	flags.StringVar(&f.source, "source", "", "address of the first port (default its own, or 198.18.0.1)")
	flags.StringVar(&f.destination, "destination", "", "address of the second port (default its own, or 198.19.0.1)")
	flags.StringVar(&f.repetitions, "repetitions", "", "repetitions of latency runs and burst searches")
	flags.StringVar(&f.resolution, "resolution", "", "resolution of the throughput search, such as 1%")
	flags.StringVar(&f.searchTime, "search-time", "", "duration of the trials of the search")
	flags.StringVar(&f.finalTime, "final-time", "", "duration of the final trials")
	flags.StringArrayVar(&f.reset, "reset-command", nil, "NAME=COMMAND that resets the device under test, as in software='ip link set r0 down' (repeatable)")
	flags.StringVar(&f.out, "out", "", "folder for an evidence bundle: tables, CSV, figures, report.html")
	flags.BoolVar(&f.iKnow, "i-know", false, "use a device even if a default route leaves through it")
	f.realtime.addFlag(flags)
}

func newRFC2544Command(a *cli.App) *cobra.Command {
	var f rfcFlags
	command := &cobra.Command{
		Use:   "rfc2544 [SPEC]",
		Short: "Benchmark a device between two ports by RFC 2544 and RFC 9004",
		Long: `Benchmark a device between two ports by RFC 2544 and RFC 9004.

It measures throughput, latency, frame loss rate, back-to-back frames, system recovery
and reset, for each frame size, and reports them as in RFC 2544 section 26. A trial is
invalid if the offered load fell short, the generator was late or the analyzer missed
frames. Invalid trials are repeated and never enter a result.

With SPEC, the ports and the header come from its first stream. The tests overload the
device under test: run them in a laboratory only (RFC 6815).

The exit status is 3 if the testbed could not support any of the tests.`,
		Example: `  sudo weir tester rfc2544 --from left:tg0 --to right:tg1 --quick --realtime --sizes 64,512,1518
  sudo weir tester rfc2544 --from left:tg0 --to right:tg1 --forwarder dut:in,out --cpus 0 --quick --realtime
  sudo weir tester rfc2544 --from eth2 --to eth3 --speed 10Gbit --bidirectional --out results/router
  sudo weir tester rfc2544 spec.yaml --tests throughput,reset --reset-command software='ip -n dut link set r0 down; ip -n dut link set r0 up'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return measureRFC2544(command.Context(), a, f, args)
		},
	}
	f.add(command.Flags())
	return command
}

func measureRFC2544(ctx context.Context, a *cli.App, f rfcFlags, args []string) (err error) {
	s, err := f.specification(args, side{sends: true, receives: true})
	if err != nil {
		return err
	}
	d := s.Directions[0]
	port, _ := s.Port(d.From)
	header := d.Schedule.Streams[0].Header
	config, err := f.config(port.Speed, header.Source.Is6(), header.VLAN != 0)
	if err != nil {
		return err
	}
	if err := privileged(); err != nil {
		return err
	}
	if err := errors.Join((&testerOptions{out: f.out}).prepareOut(), f.realtime.apply()); err != nil {
		return err
	}
	if !a.Quiet {
		config.Progress = a.Say
	}
	ports := openPorts(s)
	defer func() { err = errors.Join(err, ports.close()) }()
	device, giveBack, err := f.forwards(ctx, ports)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, giveBack()) }()
	bench, err := f.bench(ports, d, device)
	if err != nil {
		return err
	}
	report, runErr := rfc2544.Run(ctx, config, bench)
	if err := bench.Close(); err != nil {
		return errors.Join(err, runErr)
	}
	if runErr != nil && fault.Of(runErr) != fault.Testbed {
		return runErr
	}
	return benchmarked(a, report, runErr, s, f)
}

// rfcResult is the document of --format json.
type rfcResult struct {
	cli.Result
	Results rfc2544.Document `json:"results"`
}

// benchmarked writes and prints the report.
func benchmarked(a *cli.App, report rfc2544.Report, runErr error, s *spec.Spec, f rfcFlags) error {
	b := report.Bundle()
	b.Manifest.Source = s.Source
	if err := a.Keep(&b, f.out); err != nil {
		return errors.Join(err, runErr)
	}
	if a.Format == "json" {
		if err := a.JSON(rfcResult{
			Result:  cli.Result{Format: "weir-rfc2544-result/1", Bundle: f.out, Manifest: b.Manifest, Rows: cli.OrEmpty(summary.Rows(b.Samples)), Verdicts: cli.OrEmpty(b.Verdicts)},
			Results: report.Document(),
		}); err != nil {
			return err
		}
	} else {
		b.Verdicts = nil // the tables give the reasons
		if err := a.PrintBundle(b, f.out); err != nil {
			return err
		}
	}
	if report.Stopped && runErr == nil {
		return fault.New(fault.Failed, "let it run to its end for the whole result", "stopped")
	}
	return runErr
}

func (f *rfcFlags) bench(ports *testerPorts, d spec.Direction, device rfc2544.Device) (*rfc2544.Ports, error) {
	from, err := ports.port(d.From, false)
	if err != nil {
		return nil, err
	}
	to, err := ports.port(d.To, false)
	if err != nil {
		return nil, err
	}
	if f.toPeer != "" {
		namespace, device := spec.SplitDevice(f.toPeer)
		ns, err := ports.namespace(namespace)
		if err != nil {
			return nil, err
		}
		peer := from
		peer.Namespace, peer.Device, peer.Peer = ns, device, nil
		to.Peer = &peer
	}
	if len(to.CPUs) == 0 {
		to.CPUs = from.CPUs
	}
	return &rfc2544.Ports{A: from, B: to, Header: d.Schedule.Streams[0].Header, Bidirectional: f.bidirectional, IKnow: f.iKnow, Device: device}, nil
}

// config returns the procedure of the flags.
func (f *rfcFlags) config(speed units.BitRate, six, tagged bool) (rfc2544.Config, error) {
	setup := rfc2544.Setup{Speed: speed, Bidirectional: f.bidirectional, IPv6: six, Stream: stream(six, f.bidirectional), Medium: medium(speed)}
	for _, name := range f.tests {
		setup.Tests = append(setup.Tests, rfc2544.Test(strings.TrimSpace(name)))
	}
	setup.Sizes = slices.Clone(rfc2544.StandardSizes)
	if six {
		setup.Sizes = slices.Clone(rfc2544.IPv6Sizes)
	}
	if tagged { // the tag and the stamp do not fit the smallest size
		setup.Sizes[0] += 4
	}
	if len(f.sizes) > 0 {
		setup.Sizes = nil
	}
	for _, text := range f.sizes {
		size, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return rfc2544.Config{}, fault.New(fault.Usage, "write sizes as in --sizes 64,512,1518", "--sizes: %q is not a number of octets", text)
		}
		setup.Sizes = append(setup.Sizes, size)
	}
	config := rfc2544.Standard(setup)
	if f.quick {
		config = rfc2544.Quick(setup)
	}
	if f.forwarder != "" {
		config = config.OnSharedMachine()
	}
	return config, f.adjust(&config)
}

// adjust applies single flags.
func (f *rfcFlags) adjust(c *rfc2544.Config) error {
	var d units.Duration
	var share units.Probability
	for _, flag := range []struct {
		name, text string
		read       func(text []byte) error
		set        func()
	}{
		{"search-time", f.searchTime, d.UnmarshalText, func() { c.SearchTime = time.Duration(d) }},
		{"final-time", f.finalTime, d.UnmarshalText, func() { c.FinalTime = time.Duration(d) }},
		{"resolution", f.resolution, share.UnmarshalText, func() { c.Resolution = float64(share) }},
	} {
		if flag.text == "" {
			continue
		}
		if err := flag.read([]byte(flag.text)); err != nil {
			return fault.New(fault.Usage, "run 'weir tester rfc2544 --help'", "--%s: %w", flag.name, err)
		}
		flag.set()
	}
	if c.SearchTime <= 0 || c.FinalTime <= 0 || c.Resolution <= 0 || c.Resolution > 0.5 {
		return fault.New(fault.Usage, "use times above 0 and a resolution up to 50%", "trials of %s and %s with a resolution of %g", c.SearchTime, c.FinalTime, c.Resolution)
	}
	if f.repetitions != "" {
		n, err := strconv.Atoi(f.repetitions)
		if err != nil || n < 1 {
			return fault.New(fault.Usage, "give at least 1", "--repetitions %q", f.repetitions)
		}
		c.LatencyRuns, c.BurstRuns, c.RecoveryRuns = n, n, n
	}
	if f.rateLimit != "" {
		rate, err := spec.ParseFrameRate(f.rateLimit)
		if err != nil {
			return fault.New(fault.Usage, "write it as in --rate 500kpps", "--rate: %w", err)
		}
		c.HighestOffers = rate
	}
	if _, _, _, err := f.forwarded(); err != nil {
		return err
	}
	return f.resets(c)
}

// resets reads --reset-command.
func (f *rfcFlags) resets(c *rfc2544.Config) error {
	for _, text := range f.reset {
		name, script, found := strings.Cut(text, "=")
		if !found || name == "" || script == "" {
			return fault.New(fault.Usage, "write it as in --reset-command software='ip link set r0 down; ip link set r0 up'", "--reset-command %q is not NAME=COMMAND", text)
		}
		c.ResetKinds = append(c.ResetKinds, rfc2544.ResetKind{Name: name, Trigger: func(ctx context.Context) error {
			if output, err := exec.CommandContext(ctx, "sh", "-c", script).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", script, err, strings.TrimSpace(string(output)))
			}
			return nil
		}})
	}
	return nil
}

func stream(six, bidirectional bool) string {
	version := 4
	if six {
		version = 6
	}
	text := fmt.Sprintf("UDP over IPv%d over Ethernet, constant gap, one source and destination, 18-octet stamp", version)
	if bidirectional {
		text += ", both directions at once"
	}
	return text
}

func medium(speed units.BitRate) string {
	if speed == 0 {
		return "Ethernet without a speed of its own"
	}
	return "Ethernet at " + speed.String()
}
