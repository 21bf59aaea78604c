// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/wait"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/lab/fidelity"
	"weir/lab/link"
	"weir/lab/link/emulator"
	"weir/lab/link/rawsock"
	"weir/lab/scenario"
	"weir/lab/traffic/native"
)

// spoiled is the scenario of the suite: a flow over one link, and a second path beside it.
const spoiled = `
version: 1
title: a run that is spoiled
repetitions: 1
attempts: 1
hosts: [a, b]
links:
  - {name: path, ends: [a, b], rate: 50Mbit, delay: 10ms, queue: 1 bdp}
  - {name: spare, ends: [a, b], rate: 100Mbit, delay: 5ms, queue: 1 bdp}
phases:
  - name: only
    duration: 1200ms
    settle: 200ms
    flows: [{name: bulk, kind: bulk, from: a, to: b, congestion: cubic}]
`

// saboteur changes the testbed during a run's traffic.
type saboteur struct {
	t     *testing.T
	ctx   context.Context
	bench *Bench
}

// in runs a program in a node's namespace; "links" is the carrier's.
func (s *saboteur) in(node, line string) {
	s.t.Helper()
	s.command(node, "", strings.Fields(line)...)
}

func (s *saboteur) command(node, input string, words ...string) {
	s.t.Helper()
	command := exec.Command("ip", append([]string{"netns", "exec", s.namespace(node).Name}, words...)...)
	command.Stdin = strings.NewReader(input)
	if text, err := command.CombinedOutput(); err != nil {
		s.t.Errorf("in %s: %s: %v\n%s", node, strings.Join(words, " "), err, text)
	}
}

func (s *saboteur) namespace(node string) *netns.Namespace {
	if node == "links" {
		return s.bench.Topology.Carrier
	}
	return s.bench.Topology.Nodes[node]
}

func (s *saboteur) wait(d time.Duration) { _ = wait.For(s.ctx, d) }

// address is a node's address on a link.
func (s *saboteur) address(node string, link int) string {
	l := s.bench.Cell.Links[link]
	if l.A == node {
		return l.AddressA4.Addr().String()
	}
	return l.AddressB4.Addr().String()
}

// filter loads rules into nftables.
func (s *saboteur) filter(node, rules string) { s.command(node, rules, "nft", "-f", "-") }

// emulator is the process id of this run's carrier.
func (s *saboteur) emulator() int {
	s.t.Helper()
	children, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, path := range children {
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "WEIR_CHILD="+emulator.PartName+"\x00") {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if fields := strings.Fields(string(status)); err == nil && len(fields) > 3 && fields[3] == strconv.Itoa(os.Getpid()) {
			return pid
		}
	}
	s.t.Error("no emulator is running")
	return 0
}

// stop suspends a process for a while.
func (s *saboteur) stop(pid int, d time.Duration) {
	if pid <= 0 {
		return
	}
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		s.t.Error(err)
	}
	time.Sleep(d)
	if err := unix.Kill(pid, unix.SIGCONT); err != nil {
		s.t.Error(err)
	}
}

func (s *saboteur) kill(pid int) {
	if pid > 0 {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// frames sends frames from a node below its IP stack.
func (s *saboteur) frames(node, device string, count int) {
	s.t.Helper()
	socket, err := rawsock.Open(s.namespace(node), device, rawsock.None)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer func() { _ = socket.Close() }()
	frame := append([]byte{2, 0, 0, 0, 0, 0x99, 2, 0, 0, 0, 0, 0x98, 0x88, 0xb6}, make([]byte, 500)...)
	for range count {
		if err := socket.Send(s.ctx, frame); err != nil {
			s.t.Error(err)
			return
		}
	}
}

// spoil runs the scenario with the sabotage and returns the outcome.
func spoil(t *testing.T, text string, options Options, sabotage func(s *saboteur)) *Outcome {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "AF_XDP", probe.AFXDP())
	for _, program := range []string{"ip", "tc", "ethtool", "nft", "iptables-legacy", "sysctl", "ping"} {
		testutil.Command(t, program)
	}
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	options.Carrier, options.Seed = emulator.New(emulator.Options{}), 1
	if options.Generator == nil {
		options.Generator = native.New()
	}
	if options.Gate == nil {
		options.Gate = patient{}
	}
	options.during = func(ctx context.Context, bench *Bench) {
		s := &saboteur{t, ctx, bench}
		s.wait(400 * time.Millisecond)
		sabotage(s)
	}
	outcome, err := Execute(t.Context(), parse(t, text), options)
	if outcome == nil {
		t.Fatal(err)
	}
	return outcome
}

// patient neither calibrates nor measures capacity: these runs test everything else.
type patient struct{ Fidelity }

func (patient) Calibrate(context.Context, *Bench) ([]fidelity.Calibration, error) { return nil, nil }

func (patient) Capacity(context.Context, link.Carrier, *scenario.Cell) (string, error) {
	return "", nil
}

func TestEverySabotageIsRefusedWithItsReason(t *testing.T) {
	testutil.NeedSpeed(t)
	for _, c := range sabotages {
		t.Run(c.name, func(t *testing.T) {
			for tries := 1; ; tries++ {
				reasons := refusedFor(t, c.do)
				if slices.ContainsFunc(reasons, func(reason string) bool { return strings.Contains(reason, c.reason) }) {
					return
				}
				if tries == 5 || slices.ContainsFunc(reasons, func(reason string) bool { return !isByTheMachine(reason) }) {
					t.Fatalf("refused, but not for %q:\n%s", c.reason, strings.Join(reasons, "\n"))
				}
			}
		})
	}
}

// refusedFor returns the reasons for rejecting a run with the sabotage. If other load stops the
// flow, the run is rejected for that load alone.
func refusedFor(t *testing.T, sabotage func(s *saboteur)) []string {
	t.Helper()
	outcome := spoil(t, spoiled, Options{}, sabotage)
	if len(outcome.Results) != 1 {
		t.Fatalf("%d results", len(outcome.Results))
	}
	r := &outcome.Results[0]
	if r.Valid {
		t.Fatalf("valid, with a goodput of %s", r.Phases[0].Flows[0].Goodput)
	}
	if len(r.Reasons) == 0 {
		t.Fatal("refused without a reason")
	}
	t.Logf("refused: %s", r.Reasons[0])
	return r.Reasons
}
