// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/units"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/lab/traffic"
)

// role makes this test's executable a program of a flow: "send N ADDRESS" or "take PORT".
const role = "WEIR_TEST_ROLE"

func TestMain(m *testing.M) {
	words := strings.Fields(os.Getenv(role))
	if len(words) == 0 {
		os.Exit(m.Run())
	}
	if err := act(words); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func act(words []string) error {
	if words[0] == "take" {
		listener, err := net.Listen("tcp", ":"+words[1])
		if err != nil {
			return err
		}
		for {
			c, err := listener.Accept()
			if err != nil {
				return err
			}
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
	}
	n, err := strconv.Atoi(words[1])
	if err != nil {
		return err
	}
	c, err := net.Dial("tcp", words[2])
	if err != nil {
		return err
	}
	if _, err := c.Write(make([]byte, n)); err != nil {
		return err
	}
	fmt.Printf("sent %d bytes\n", n)
	return c.Close()
}

// hosts returns two hosts joined by a veth pair, by IP version.
func hosts(t *testing.T, family int) (from, to traffic.Endpoint) {
	t.Helper()
	left, right := testutil.Namespace(t, "left"), testutil.Namespace(t, "right")
	a, err := rtnl.Open(left)
	must(t, err)
	t.Cleanup(a.Close)
	b, err := rtnl.Open(right)
	must(t, err)
	t.Cleanup(b.Close)
	must(t, a.AddVeth("a", right, "b", 0))
	addresses := map[int][2]string{4: {"10.0.0.1/24", "10.0.0.2/24"}, 6: {"fd00::1/64", "fd00::2/64"}}[family]
	for i, end := range []struct {
		conn   *rtnl.Conn
		device string
	}{{a, "a"}, {b, "b"}} {
		must(t, end.conn.AddAddress(end.device, netip.MustParsePrefix(addresses[i])))
		must(t, end.conn.SetUp(end.device))
	}
	for conn, device := range map[*rtnl.Conn]string{a: "a", b: "b"} {
		testutil.Eventually(t, 5*time.Second, device+" running", func() bool {
			d, err := conn.Device(device)
			return err == nil && d.Running
		})
	}
	return traffic.Endpoint{Namespace: left, Address: netip.MustParsePrefix(addresses[0]).Addr()},
		traffic.Endpoint{Namespace: right, Address: netip.MustParsePrefix(addresses[1]).Addr()}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func flow(c traffic.Command) traffic.Flow {
	return traffic.Flow{Name: "f", Kind: traffic.Program, From: "left", To: "right", Streams: 1, Duration: 20 * time.Second, Command: &c}
}

func self(words string) string { return fmt.Sprintf("%s='%s' exec %s", role, words, os.Args[0]) }

const octets = 1_000_000

func counted(n uint64) bool { return n >= octets/1000*999 && n <= octets/10*12 }

// A program's payload is counted exactly, except for SYN options, and for retransmissions on a busy
// machine.
func TestOctetsAreCountedAtTheReceiver(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			from, to := hosts(t, family)
			f := flow(traffic.Command{Run: `HOST=$WEIR_TO; case $HOST in *:*) HOST="[$HOST]";; esac; ` + strings.Replace(self("send 1000000 TARGET"), "'send 1000000 TARGET'", `"send 1000000 $HOST:$WEIR_PORT"`, 1),
				Server: self("take 4000"), Port: 4000})
			f.Family = family
			result, err := Generator{}.Run(t.Context(), f, from, to)
			must(t, err)
			if result.Failed != "" {
				t.Fatalf("the flow failed: %s", result.Failed)
			}
			s := result.Streams[0]
			if !counted(s.ReceivedBytes) {
				t.Errorf("%d bytes of %d were counted", s.ReceivedBytes, octets)
			}
			var sum uint64
			for _, n := range s.Received {
				sum += n
			}
			if !counted(sum) || s.Finished == 0 || s.Finished > f.Duration {
				t.Errorf("%d bytes in the intervals, ended after %s", sum, s.Finished)
			}
			if len(result.Programs) != 2 || !result.Programs[0].Stopped || result.Programs[0].Host != "right" || result.Programs[1].Status != 0 || !strings.Contains(result.Programs[1].Output, "sent 1000000 bytes") {
				t.Errorf("programs %+v", result.Programs)
			}
		})
	}
}

// A command reports a rate in a line of its own, and the last one counts.
func TestARateThatACommandFindsIsTold(t *testing.T) {
	from, to := hosts(t, 4)
	for line, want := range map[string]units.BitRate{
		"echo rate 5Mbit; echo rate 7.5 Mbit/s; echo done": 7_500_000, "echo rate 1.25e+07 >&2": 12_500_000,
		"echo rate 1Mbit; echo rate of nothing": 1_000_000, "echo the rate 5Mbit": 0, "echo rate -5": 0, "echo rate NaN": 0,
		"test -x \"$WEIR\" && echo rate 1000": 1000,
	} {
		result, err := Generator{}.Run(t.Context(), flow(traffic.Command{Run: line}), from, to)
		if must(t, err); result.Reported != want || result.Failed != "" {
			t.Errorf("%s: %s, want %s; %s", line, result.Reported, want, result.Failed)
		}
	}
}

func TestWhatProgramsDoIsTold(t *testing.T) {
	from, to := hosts(t, 4)
	for _, c := range []struct {
		name    string
		command traffic.Command
		failed  string // in Failed, or in the error
		output  string // of the command
	}{
		{"a status", traffic.Command{Run: "echo broken >&2; exit 3"}, "its command ended with exit status 3: broken", "broken"},
		{"a server that ends", traffic.Command{Run: "true", Server: "echo no disk; exit 1", Port: 9}, "its server ended with exit status 1: no disk", ""},
		{"a server in the background", traffic.Command{Run: "true", Server: "true", Port: 9}, "keep it in the foreground", ""},
		{"its surroundings", traffic.Command{Run: `echo $WEIR_FROM $WEIR_TO $WEIR_SECONDS; test -z "$(ls)"`}, "", "10.0.0.1 10.0.0.2 20"},
		{"the other end", traffic.Command{Run: "cat /sys/class/net/lo/ifindex >/dev/null; cat /proc/net/fib_trie", AtTo: true}, "", "10.0.0.2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			result, err := Generator{}.Run(t.Context(), flow(c.command), from, to)
			failed := result.Failed
			if err != nil {
				failed = err.Error()
			}
			if c.failed == "" && failed != "" || !strings.Contains(failed, c.failed) {
				t.Errorf("failed with %q, want %q", failed, c.failed)
			}
			if n := len(result.Programs); c.output != "" && (n == 0 || !strings.Contains(result.Programs[n-1].Output, c.output)) {
				t.Errorf("programs %+v, want the output %q", result.Programs, c.output)
			}
		})
	}
	if err := (Generator{}).Check(flow(traffic.Command{Run: "no-such-program -x"})); err == nil || !strings.Contains(err.Error(), "there is no program no-such-program") {
		t.Errorf("a program that is not there: %v", err)
	}
}

// Programs end with the flow, and their children with them.
func TestNothingOutlivesTheFlow(t *testing.T) {
	from, to := hosts(t, 4)
	pids := filepath.Join(t.TempDir(), "pids")
	line := fmt.Sprintf("trap '' TERM; sleep 1000 & echo $! >> %s; echo $$ >> %s; wait; sleep 1000", pids, pids)
	f := flow(traffic.Command{Run: line, Server: line})
	f.Duration = 300 * time.Millisecond
	result, err := Generator{}.Run(t.Context(), f, from, to)
	must(t, err)
	if result.Failed != "" || !result.Programs[0].Stopped || !result.Programs[1].Stopped {
		t.Errorf("a flow whose time is over: %+v", result)
	}
	text, err := os.ReadFile(pids)
	must(t, err)
	for _, pid := range strings.Fields(string(text)) {
		testutil.Eventually(t, 5*time.Second, "the end of process "+pid, func() bool {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			return err != nil || strings.Contains(string(stat), ") Z ")
		})
	}
}

func TestHostsAreKnownByName(t *testing.T) {
	from, to := hosts(t, 4)
	names := filepath.Join(t.TempDir(), "hosts")
	must(t, os.WriteFile(names, []byte("10.0.0.2 right\n"), 0o644))
	from.Hosts = names
	before, err := os.ReadFile("/etc/hosts")
	must(t, err)
	result, err := Generator{}.Run(t.Context(), flow(traffic.Command{Run: "cat /etc/hosts"}), from, to)
	must(t, err)
	if result.Failed != "" || result.Programs[0].Output != "10.0.0.2 right\n" {
		t.Errorf("%+v", result)
	}
	if after, err := os.ReadFile("/etc/hosts"); err != nil || string(after) != string(before) {
		t.Errorf("this machine's own names have changed: %v", err)
	}
}

func TestAStoppedFlowSaysSo(t *testing.T) {
	from, to := hosts(t, 4)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	result, err := Generator{}.Run(ctx, flow(traffic.Command{Run: "sleep 1000"}), from, to)
	if err == nil || result.Failed == "" {
		t.Errorf("a flow that was stopped: %+v, %v", result, err)
	}
}
