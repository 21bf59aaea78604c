// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/clitest"
	"weir/internal/fault"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/tester/analyzer"
)

// path is a veth pair between two namespaces, and a specification of streams over it.
type path struct {
	left, right string // NAMESPACE:DEVICE
	l, r        *rtnl.Conn
	spec        string // file
	analyze     func(t *testing.T) *analyzer.Analyzer
}

func newPath(t *testing.T) *path {
	t.Helper()
	left, right := testutil.Namespace(t, "cmdl"), testutil.Namespace(t, "cmdr")
	p := &path{left: left.Name + ":tg0", right: right.Name + ":tg1"}
	var err error
	if p.l, err = rtnl.Open(left); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.l.Close)
	if p.r, err = rtnl.Open(right); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.r.Close)
	if err := errors.Join(
		p.l.AddVeth("tg0", right, "tg1", 0), p.l.SetUp("tg0"), p.r.SetUp("tg1"),
		p.l.AddAddress("tg0", netip.MustParsePrefix("198.18.0.1/24")), p.r.AddAddress("tg1", netip.MustParsePrefix("198.18.0.2/24")),
	); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 5*time.Second, "carrier", func() bool {
		d, err := p.l.Device("tg0")
		return err == nil && d.Running
	})
	p.spec = filepath.Join(t.TempDir(), "spec.yaml")
	p.write(t, left.Name, right.Name, "0%")
	p.analyze = func(t *testing.T) *analyzer.Analyzer {
		t.Helper()
		a, err := analyzer.Attach(right, "tg1", analyzer.Options{Streams: []uint16{0}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Close() }) // a second time does nothing
		return a
	}
	return p
}

// write makes the specification; sends no more frames than most, so that min of the loss decides.
func (p *path) write(t *testing.T, left, right, minLoss string) {
	t.Helper()
	text := fmt.Sprintf(`version: 1
name: path
ports:
  left: {device: tg0, namespace: %s}
  right: {device: tg1, namespace: %s}
policy: catch-up
duration: 5s
straggle: 2s
streams:
  - {name: small, from: left, to: right, frames: 500, rate: 50kpps, destination: 198.18.0.2}
  - {name: mix, from: left, to: right, frames: 500, rate: 50kpps, size: imix, dscp: le, destination: 198.18.0.2}
expect:
  - {stream: small, metric: stream_loss, min: %s, max: 100%%}
  - {stream: small, metric: stream_received, min: 500, max: 500}
`, left, right, minLoss)
	if err := os.WriteFile(p.spec, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTesterRunMeasuresJudgesAndKeepsEvidence(t *testing.T) {
	p := newPath(t)
	out := filepath.Join(t.TempDir(), "bundle")
	defer p.nothingAttached(t)
	status, stdout, stderr := commands.Call(t, "tester", "run", p.spec, "--out", out)
	if status != fault.OK {
		t.Fatalf("status %d: %s%s", status, stdout, stderr)
	}
	for _, want := range []string{"small", "mix", "holds", "One-way delay", "Evidence: " + out} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the output lacks %q:\n%s", want, stdout)
		}
	}
	for _, file := range []string{"manifest.json", "report.html"} {
		if _, err := os.Stat(filepath.Join(out, file)); err != nil {
			t.Error(err)
		}
	}
	namespace, _, _ := strings.Cut(p.left, ":")
	other, _, _ := strings.Cut(p.right, ":")
	p.write(t, namespace, other, "50%") // nothing is lost here, so this cannot hold
	status, stdout, _ = commands.Call(t, "tester", "run", p.spec, "--quiet", "--format", "json")
	var result testerResult
	if err := json.Unmarshal([]byte(stdout), &result); err != nil {
		t.Fatal(err)
	}
	if status != fault.Failed || result.Verdicts[0].Outcome != "fails" || result.Verdicts[1].Outcome != "holds" {
		t.Errorf("status %d, verdicts %+v; want 1, the first one failing", status, result.Verdicts)
	}
	if s := result.Account.Streams[0]; s.Sent.Frames != 500 || s.Received.Received != 500 {
		t.Errorf("stream %s: sent %d, received %d, want 500", s.Name, s.Sent.Frames, s.Received.Received)
	}
}

func TestTesterRejectsMissingCPUs(t *testing.T) {
	p := newPath(t)
	status, _, stderr := commands.Call(t, "tester", "run", "--from", p.left, "--to", p.right, "--cpus", "1000", "--frames", "1")
	if status != fault.Usage || !strings.Contains(stderr, "CPUs [1000]") || !strings.Contains(stderr, "Try:   use some of [") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestTesterTwoProcessesJoinTheirAccounts(t *testing.T) {
	p := newPath(t)
	dir := t.TempDir()
	receiver := clitest.Start(t, "tester", "receive", p.spec, "--listen", "60s", "--format", "json")
	testutil.Eventually(t, 20*time.Second, "the receiver's analyzer", func() bool {
		d, err := p.r.Device("tg1")
		return err == nil && d.XDP != 0
	})
	status, sent, stderr := commands.Call(t, "tester", "send", p.spec, "--format", "json", "--quiet")
	if status != fault.OK {
		t.Fatalf("send: status %d: %s", status, stderr)
	}
	if err := receiver.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = receiver.Wait() // status 1: it was interrupted before its time
	received := receiver.Stdout.(*strings.Builder).String()
	if said := receiver.Stderr.(*strings.Builder).String(); !strings.HasPrefix(said, "ready: ") {
		t.Errorf("the receiver does not say first that it is ready: %s", said)
	}
	for name, text := range map[string]string{"sender.json": sent, "receiver.json": received} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, stdout, stderr := commands.Call(t, "tester", "join", filepath.Join(dir, "sender.json"), filepath.Join(dir, "receiver.json"), "--spec", p.spec)
	if status != fault.OK {
		t.Fatalf("join: status %d: %s%s", status, stdout, stderr)
	}
	for _, want := range []string{"Delay above the minimum (relative", "relative to the smallest one", "holds"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the joined report lacks %q:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "One-way delay") {
		t.Error("two clocks gave a one-way delay")
	}
	if status, _, stderr := commands.Call(t, "tester", "join", filepath.Join(dir, "receiver.json"), filepath.Join(dir, "sender.json")); status != fault.Usage || !strings.Contains(stderr, "sender's account first") {
		t.Errorf("accounts in the wrong order: status %d, %s", status, stderr)
	}
}

func TestTesterSendKilledStopsAndLeavesNothing(t *testing.T) {
	p := newPath(t)
	a := p.analyze(t)
	received := func() uint64 {
		analysis, err := a.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return analysis.Streams[0].Received
	}
	sender := clitest.Start(t, "tester", "send", "--from", p.left, "--destination", "198.18.0.2", "--rate", "50kpps", "--duration", "1h", "--quiet")
	testutil.Eventually(t, 20*time.Second, "the first frames", func() bool { return received() > 100 })
	if err := sender.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sender.Wait() // it says that it was killed
	before, same := received(), 0
	testutil.Eventually(t, 10*time.Second, "the end of the frames", func() bool {
		if now := received(); now != before {
			before, same = now, 0
		} else {
			same++
		}
		return same == 20 // looks, 5 ms each: 5000 frames at the rate asked for
	})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	p.nothingAttached(t)
}

// nothingAttached checks that no XDP program is left on either device.
func (p *path) nothingAttached(t *testing.T) {
	t.Helper()
	for device, conn := range map[string]*rtnl.Conn{"tg0": p.l, "tg1": p.r} {
		if d, err := conn.Device(device); err != nil || d.XDP != 0 {
			t.Errorf("%s has the XDP program %d (%v), want none", device, d.XDP, err)
		}
	}
}

func TestTesterRFC2544ReportsOrSaysWhyNot(t *testing.T) {
	for _, more := range [][]string{nil, {"--bidirectional"}} {
		t.Run(strings.Join(more, " "), func(t *testing.T) { reportsOrSaysWhyNot(t, more...) })
	}
}

func reportsOrSaysWhyNot(t *testing.T, more ...string) {
	p := newPath(t)
	status, stdout, stderr := commands.Call(t, append([]string{"tester", "rfc2544", "--from", p.left, "--to", p.right, "--quick", "--sizes", "128", "--tests", "throughput",
		"--search-time", "20ms", "--final-time", "50ms", "--rate", "1kpps", "--quiet", "--format", "json"}, more...)...)
	p.nothingAttached(t)
	var result cli.Result
	if err := json.Unmarshal([]byte(stdout), &result); err != nil {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	switch verdict := result.Verdicts[0]; {
	case status == fault.OK && verdict.Outcome == "holds":
	case status == fault.Testbed && verdict.Outcome == "not measured" && strings.Contains(verdict.Reason, "the testbed cannot support this"):
	default:
		t.Errorf("status %d with verdict %+v: %s", status, verdict, stderr)
	}
}

func TestTesterRFC2544LeavesRoomForATag(t *testing.T) {
	for _, six := range []bool{false, true} {
		config, err := (&rfcFlags{tests: []string{"throughput"}}).config(0, six, true)
		if want := map[bool]int{false: 68, true: 88}[six]; err != nil || config.Sizes[0] != want || config.Sizes[1] != 128 {
			t.Errorf("IPv6 %t: sizes %v, %v; want %d first", six, config.Sizes, err, want)
		}
	}
}

func TestTesterWrongUsage(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"tester", "run"}, "nothing says which device to send from"},
		{[]string{"tester", "run", "nowhere.yaml"}, "nowhere.yaml"},
		{[]string{"tester", "send", "--from", "tg0"}, "nothing says where to send"},
		{[]string{"tester", "send", "--from", "tg0", "--destination", "198.18.0.2", "--rate", "fast"}, `Error: --rate: rate "fast" is not understood`},
		{[]string{"tester", "send", "--from", "tg0", "--destination-mac", "02:00:00:00:00:01", "--size", "60"}, "Error: --size: frames of 60 octets are too short"},
		{[]string{"tester", "run", "--from", "a", "--to", "b", "--rate", "10%"}, "Error: --rate: rate of the line needs --speed\nTry:   add --speed, such as --speed 10Gbit"},
		{[]string{"tester", "run", "--from", "a", "--to", "b", "--destination", "1.2.3"}, `Error: --destination: "1.2.3" is not an IP address` + "\nTry:   --help describes"},
		{[]string{"tester", "run", "--from", "a", "--to", "b", "--vlan", "9999"}, "Error: --vlan: VLAN 9999"},
		{[]string{"tester", "run", "--from", "lo", "--to", "lo", "--policy", "x"}, `Error: --policy: "x" is not one of`},
		{[]string{"tester", "run", "--from", "a", "--to", "b", "--metrics", "0.0.0.0:9465"}, "no loopback address"},
		{[]string{"tester", "send", "--from", "tg0", "--destination", "198.18.0.2", "--rate", "1000Gpps"}, "1000Gpps"},
		{[]string{"tester", "receive", "--to", "tg0", "--streams", "0"}, "--streams 0"},
		{[]string{"tester", "rfc2544", "--from", "a", "--to", "b", "--tests", "speed"}, ""},
		{[]string{"tester", "rfc2544", "--from", "a", "--to", "b", "--sizes", "small"}, `"small" is not a number`},
		{[]string{"tester", "rfc2544", "--from", "a", "--to", "b", "--reset-command", "x"}, "NAME=COMMAND"},
		{[]string{"tester", "rfc2544", "--from", "a", "--to", "b", "--forwarder", "dut:in"}, "NAMESPACE:DEVICE,DEVICE"},
		{[]string{"tester", "join", "a.json", "b.json"}, "a.json"},
	} {
		status, stdout, stderr := commands.Call(t, test.args...)
		if status != fault.Usage || !strings.Contains(stderr, test.want) || !strings.Contains(stderr, "Try:") || stdout != "" {
			t.Errorf("%v: status %d, %q, want 2 and %q with a way out", test.args, status, stderr, test.want)
		}
	}
}
