// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/internal/version"
	"weir/measure/client"
	"weir/measure/latency"
	"weir/measure/msak"
	"weir/measure/record"
	evidence "weir/record"
)

// runOptions are the flags of weir measure run.
type runOptions struct {
	kind, direction string
	streams         int
	congestion      string
	duration        time.Duration
	latencyPort     uint16
	tokenFile       string
	four, six, both bool
	bind            string
	insecure        bool
	repeat          int
	seed            uint64
	out             string
}

func newRunCommand(a *cli.App) *cobra.Command {
	var o runOptions
	command := &cobra.Command{
		Use:   "run SERVER",
		Short: "Test the rate and delay of the path to a server",
		Long: `Test the rate and delay of the path to a server of ndt7 or msak, Weir's or another one.
SERVER is HOST[:PORT] or wss://HOST[:PORT] for tests over TLS, and ws://HOST[:PORT] for
clear tests. Tests of ndt7 and msak send as fast as they can:

  ndt7      one stream, 10 s
  msak      --streams at the same time, 5 s or --duration (at most 25 s), and --cc as the
            sender's congestion control; the rate counts the time in which all streams ran
  latency   msak's latency1: round trips of small UDP datagrams without load, 5 s

Rates count payload at its receiver. An upload therefore does not count bytes that
remain in buffers, if the server reports its count. RTT and retransmissions are those
of the sender's TCP.

A test that the client itself limited (CPU), that failed, or that did not leave this
host is shown and never counted; the exit status is 3 if no test counts. With --both
and --repeat the tests run interleaved in random order, and differences of the families
have 95 % intervals.`,
		Example: `  weir measure run ndt.example.org
  weir measure run ws://192.0.2.9:8080 --direction upload --repeat 5
  weir measure run ndt.example.org --test msak --streams 4 --cc cubic
  weir measure run ndt.example.org --test latency --both
  weir measure run ndt.example.org --both --repeat 5 --out evidence`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if !command.Flags().Changed("seed") {
				o.seed = rand.Uint64() >> 12 // exact in JSON
			}
			return o.run(command.Context(), a, args[0])
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.kind, "test", "ndt7", "ndt7, msak or latency")
	flags.IntVar(&o.streams, "streams", 1, "streams of a msak test")
	flags.StringVar(&o.congestion, "cc", "", "congestion control of a msak test's sender: bbr, cubic or reno (default: the sender's)")
	flags.DurationVar(&o.duration, "duration", 0, "time of a msak test (default: 5s)")
	flags.StringVar(&o.tokenFile, "token-file", "", "file with the server's access token")
	flags.Uint16Var(&o.latencyPort, "latency-port", latency.DefaultPort, "UDP port of the server's latency tests")
	flags.StringVar(&o.direction, "direction", "both", "download, upload or both")
	flags.BoolVarP(&o.four, "ipv4", "4", false, "IPv4 only")
	flags.BoolVarP(&o.six, "ipv6", "6", false, "IPv6 only")
	flags.BoolVar(&o.both, "both", false, "IPv4 and IPv6, interleaved in random order")
	flags.StringVar(&o.bind, "bind", "", "local address or interface")
	flags.BoolVar(&o.insecure, "insecure", false, "accept any certificate, for a lab")
	flags.IntVar(&o.repeat, "repeat", 1, "tests of each direction and family")
	flags.Uint64Var(&o.seed, "seed", 0, "seed of the order (default: random)")
	flags.StringVar(&o.out, "out", "", "folder of the evidence bundle")
	return command
}

// task is one test to run.
type task struct {
	address    netip.AddrPort
	family     client.Family
	direction  record.Direction
	repetition int // from 1
}

// name is the test's name in tables: a latency test has no direction.
func (t task) name() string { return cmp.Or(string(t.direction), string(client.Latency)) }

func (o *runOptions) directions() ([]record.Direction, error) {
	if o.kind == string(client.Latency) {
		return []record.Direction{""}, nil
	}
	switch o.direction {
	case "both":
		return []record.Direction{record.Download, record.Upload}, nil
	case "download", "upload":
		return []record.Direction{record.Direction(o.direction)}, nil
	}
	return nil, fault.New(fault.Usage, "write --direction download, upload or both", "--direction %q is not known", o.direction)
}

// plan checks the flags, resolves the server and returns the tests.
func (o *runOptions) plan(ctx context.Context, s client.Server) ([]task, error) {
	if o.repeat < 1 || o.repeat > 1000 {
		return nil, fault.New(fault.Usage, "write --repeat 5", "--repeat %d is outside 1 to 1000", o.repeat)
	}
	if o.four && o.six || o.both && (o.four || o.six) {
		return nil, fault.New(fault.Usage, "give one of them; --both has both families", "-4, -6 and --both exclude each other")
	}
	if err := o.verifyTest(); err != nil {
		return nil, err
	}
	directions, err := o.directions()
	if err != nil {
		return nil, err
	}
	addresses, err := o.addresses(ctx, s)
	if err != nil {
		return nil, err
	}
	return o.order(addresses, directions), nil
}

// maxStreams is the number of streams that other servers accept too.
const maxStreams = 16

func (o *runOptions) verifyTest() error {
	msakOnly := o.streams != 1 || o.congestion != "" || o.duration != 0
	switch {
	case !slices.Contains([]client.Test{client.NDT7, client.MSAK, client.Latency}, client.Test(o.kind)):
		return fault.New(fault.Usage, "write --test ndt7, msak or latency", "--test %q is not known", o.kind)
	case o.kind == string(client.Latency) && o.direction != "both":
		return fault.New(fault.Usage, "leave it out", "a latency test has no --direction")
	case o.latencyPort == 0:
		return fault.New(fault.Usage, "write --latency-port 1053", "--latency-port 0 is no port")
	case o.kind != string(client.MSAK) && msakOnly:
		return fault.New(fault.Usage, "add --test msak", "--streams, --cc and --duration are options of msak")
	case o.streams < 1 || o.streams > maxStreams:
		return fault.New(fault.Usage, "write --streams 4", "--streams %d is outside 1 to %d", o.streams, maxStreams)
	case o.congestion != "" && !slices.Contains(msak.CongestionControls, o.congestion):
		return fault.New(fault.Usage, "write bbr, cubic or reno", "--cc %q is no congestion control of msak", o.congestion)
	case o.duration != 0 && (o.duration < time.Second || o.duration > msak.LongestDuration):
		return fault.New(fault.Usage, "write --duration 10s", "--duration %s is outside 1s to %s", o.duration, msak.LongestDuration)
	}
	return nil
}

// order returns the tests: rounds of one test of each address and direction, in a random order.
func (o *runOptions) order(addresses []netip.AddrPort, directions []record.Direction) (tasks []task) {
	order := rand.New(rand.NewPCG(o.seed, 0))
	for n := range o.repeat {
		start := len(tasks)
		for _, address := range addresses {
			for _, direction := range directions {
				family := client.IPv6
				if address.Addr().Is4() {
					family = client.IPv4
				}
				tasks = append(tasks, task{address, family, direction, n + 1})
			}
		}
		round := tasks[start:]
		order.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
	}
	return tasks
}

// addresses returns one address of each requested family; without a request, that of the family
// that the host prefers.
func (o *runOptions) addresses(ctx context.Context, s client.Server) ([]netip.AddrPort, error) {
	var families []client.Family
	switch {
	case o.both:
		families = []client.Family{client.IPv4, client.IPv6}
	case o.four:
		families = []client.Family{client.IPv4}
	case o.six:
		families = []client.Family{client.IPv6}
	default:
		address, err := net.DefaultResolver.LookupNetIP(ctx, "ip", s.Host)
		if err != nil {
			return nil, fault.New(fault.Failed, "check the name of the server", "find %s: %w", s.Host, err)
		}
		families = []client.Family{client.IPv6}
		if address[0].Unmap().Is4() {
			families = []client.Family{client.IPv4}
		}
	}
	var all []netip.AddrPort
	for _, f := range families {
		address, err := s.Resolve(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, address)
	}
	return all, nil
}

func (o *runOptions) run(ctx context.Context, a *cli.App, server string) error {
	s, err := client.ParseServer(server)
	if err != nil {
		return err
	}
	tasks, err := o.plan(ctx, s)
	if err != nil {
		return err
	}
	token, err := o.token()
	if err != nil {
		return err
	}
	report := newReport(s, o, time.Now())
	for i, t := range tasks {
		result, err := o.test(ctx, a, s, t, token, fmt.Sprintf("%d of %d", i+1, len(tasks)))
		if ctx.Err() != nil {
			report.stopped = true
			break
		}
		if err != nil {
			return err
		}
		report.add(t, result)
	}
	return report.print(a)
}

// token reads the access token; "" without one.
func (o *runOptions) token() (string, error) {
	if o.tokenFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(o.tokenFile)
	if err != nil {
		return "", fault.New(fault.Usage, "name a readable file with the token alone", "--token-file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// test runs one test and shows its progress.
func (o *runOptions) test(ctx context.Context, a *cli.App, s client.Server, t task, token, count string) (client.Result, error) {
	var shown time.Duration
	name := fmt.Sprintf("%s, %s over %s", count, t.name(), t.family)
	show := func(p client.Progress) {
		pause := 2 * time.Second
		if a.Interactive() {
			pause = 200 * time.Millisecond
		}
		if p.Rate == 0 && p.RTT == 0 || p.At-shown < pause {
			return
		}
		shown = p.At
		text := fmt.Sprintf("%s: %.1f s", name, p.At.Seconds())
		if p.Rate > 0 {
			text += ", " + evidence.BitPerSecond.Format(p.Rate)
		}
		if p.RTT > 0 {
			text += ", RTT " + evidence.Seconds.Format(p.RTT.Seconds())
		}
		if a.Interactive() {
			text += "\033[K\r"
			if !a.Quiet {
				fmt.Fprint(a.Stderr, text)
			}
			return
		}
		a.Say("%s", text)
	}
	result, err := client.Run(ctx, client.Options{
		Server: s, Address: t.address, Test: client.Test(o.kind), Direction: t.direction, Streams: o.streams, Congestion: o.congestion, Duration: o.duration, LatencyPort: o.latencyPort, Token: token, Bind: o.bind, Insecure: o.insecure, Version: version.Number, Progress: show,
	})
	if a.Interactive() && !a.Quiet {
		fmt.Fprint(a.Stderr, "\033[K")
	}
	var busy *client.Busy
	if errors.As(err, &busy) {
		return result, fmt.Errorf("%s: %w", name, err)
	}
	return result, err
}
