// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bufio"
	compare "cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"weir/core/engine"
	"weir/internal/child"
	"weir/internal/direction"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/modules/limit/police"
	"weir/modules/limit/scoped"
)

const (
	// kills is the number of kills without WEIR_SOAK.
	kills = 50
	// releases is the number of kills between two releases.
	releases = 10
	patience = time.Minute
	// hosts is the number of concurrent hosts.
	hosts           = 2
	soonest, latest = 15 * time.Millisecond, 3 * time.Second
)

// treated is a policy, and its requirements.
type treated struct {
	scopes  string
	rest    string // sections of the file
	limits  bool   // has programs at the cgroup
	tells   bool   // has one that reports packets waiting at a device and, without limits there, one that paces
	holds   bool   // has one that reports packets received by their sockets
	control string // of connections of b, if Weir's; "" for the host's
	made    string // state of the devices after an undisturbed apply
}

// policies alternate: scopes are added and removed, and change their treatments; links lose their
// trees and get them back. Scope names are unique, because they identify the policy.
var policies = []treated{
	{scopes: "  a: {cgroup: /a, egress: {rate: 10Mbit, mode: police}}\n", limits: true},
	{scopes: "  a: {cgroup: /a, egress: {rate: 30Mbit, mode: police}, ingress: {rate: 20Mbit, mode: police}}\n  b: {cgroup: /b, egress: {rate: 15Mbit, mode: police}, class: lbe}\n", limits: true},
	{scopes: "  inner: {cgroup: /a/inner, parent: all}\n  b: {cgroup: /b, parent: all, congestion: ledbat}\n  all: {egress: {rate: 40Mbit, mode: police}}\n", limits: true, control: "ledbat"},
	{scopes: "  a: {cgroup: /a, egress: {rate: 20Mbit, mode: police}}\n" + users(20), limits: true},
	{scopes: "  b: {cgroup: /b, congestion: scavenger, downloads: scavenger, class: lbe}\n", control: "scavenger"},
	{scopes: "  b: {cgroup: /b, congestion: ledbat}\n  here: {host: true, class: cs1, egress: {rate: 50Mbit, mode: police}}\n", limits: true, control: "ledbat"},
	{scopes: "  wire: {interface: eth0, egress: {rate: 80Mbit, mode: shape}, ingress: {rate: 60Mbit, mode: shape}}\n", tells: true, holds: true},
	{scopes: "  other: {interface: eth1, egress: {rate: 70Mbit, mode: shape}}\n  b: {cgroup: /b, egress: {rate: 12Mbit, mode: police}, class: lbe}\n", limits: true, tells: true},
	{scopes: "  kind: {cgroup: /a, class: lbe}\n", rest: "links:\n  eth0: {rate: 300Mbit}\n  eth1: {rate: 500Mbit, preset: geant-2}\n"},
	{scopes: "  seen: {prefix: \"fd09::/64\", ioam: {namespace: 1, trace: [node, timestamps]}}\n", rest: ioam},
	{scopes: "  b: {cgroup: /b, class: cs1}\n  a: {cgroup: /a, egress: {rate: 25Mbit, mode: police}}\n", limits: true, rest: offload},
	{scopes: "  wire: {interface: eth0, ingress: {rate: 50Mbit, mode: shape}}\n  all: {prefix: \"fd09:0:0:1::/64\", class: lbe, ioam: {namespace: 1, edge: [sequence]}}\n  b: {cgroup: /b, egress: {rate: 9Mbit, mode: police}, congestion: ledbat}\n",
		rest: "links:\n  eth1: {rate: 400Mbit}\n" + ioam + offload, limits: true, control: "ledbat"},
}

const (
	ioam    = "ioam:\n  node: 7\n  interfaces:\n    eth0: {id: 1, roles: [ingress, egress]}\n    eth1: {id: 2, roles: [ingress, egress]}\n  namespaces:\n    1: {data: 0xcafe}\n"
	offload = "offload:\n  from: [eth0, eth1]\n"
)

// users returns n scopes, more than the data plane of a short policy holds.
func users(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "  user%d: {user: %d, egress: {rate: 1Mbit, mode: police}, class: cs1}\n", i, 1000+i)
	}
	return text.String()
}

// soak is the test bed of the kills.
type soak struct {
	*testing.T
	deed
	place    *place
	policies []treated // policies that this kernel supports
	random   *rand.Rand
	engine   *engine.Engine
	before   treated // active before the last deed
	bare     string  // state of the devices without Weir
	count    map[string]int
}

// A kill at any point leaves the old state or the new one, and after a release nothing: neither
// programs nor pins, queues nor settings nor cgroups, and open sockets have their own pace.
func TestKilledAtAnyPointAllIsMadeGood(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Command(t, "bash")
	testutil.Command(t, "tc")
	testutil.Snapshot(t)
	n := kills
	if text := os.Getenv("WEIR_SOAK"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	// Independent hosts keep the CPUs busy while one of them waits.
	seed := testutil.Rand(t)
	for i := range hosts {
		random := rand.New(rand.NewPCG(seed.Uint64(), 0))
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			s := newSoak(t, random, fmt.Sprintf("s%x%d", os.Getpid()&0xfff, i))
			s.run((n + hosts - 1 - i) / hosts)
		})
	}
}

func newSoak(t *testing.T, random *rand.Rand, controls string) *soak {
	s := &soak{T: t, random: random, count: map[string]int{}}
	s.deed = deed{State: t.TempDir(), Pins: filepath.Join(testutil.BPFFS(t), "weir"), Root: testutil.Cgroup(t).Path, Controls: controls}
	s.place = newPlace(t, s.Root)
	s.Namespace = s.place.here.Name
	var err error
	if s.engine, err = s.deed.engine(); err != nil {
		t.Fatal(err)
	}
	s.Scavenge = probe.ProgramType(ebpf.StructOps) == nil
	for _, p := range policies {
		if p.control == "" || s.Scavenge {
			s.rehearse(p)
		}
	}
	return s
}

// rehearse applies a policy and releases it, undisturbed, and records the devices' state meanwhile.
// It omits parts that this kernel lacks.
func (s *soak) rehearse(p treated) {
	s.Helper()
	before := s.place.look(s.T)
	if err := s.place.here.Do(func() error {
		parsed, err := s.engine.Language.Parse("policy", []byte(p.text()))
		if err != nil {
			return err
		}
		if _, err := s.engine.Plan(parsed); err != nil {
			if lacking() == nil {
				return err
			}
			s.Logf("left out, since this kernel cannot: %v", err)
			return nil
		}
		if _, err = s.engine.Apply(parsed); err == nil {
			p.made = s.place.look(s.T).made
			_, err = s.engine.Release()
		}
		s.policies = append(s.policies, p)
		return err
	}); err != nil {
		s.Fatalf("%v\n%s", err, p.text())
	}
	// The kernel detaches programs some time after the removal of their last pin.
	testutil.Eventually(s, patience, "without a kill the devices are as before:\n"+before.exact, func() bool { return s.place.look(s.T).exact == before.exact })
}

// lacking returns the missing feature of a kernel that does not support all policies.
func lacking() error {
	return errors.Join(probe.ProgramType(ebpf.SchedCLS), probe.Qdisc("htb"), probe.Qdisc("tbf"), probe.Qdisc("pfifo"), probe.IFB(), probe.TCX(), probe.XDPNative())
}

func (p treated) text() string { return "version: 1\nscopes:\n" + p.scopes + p.rest }

// run kills n times, and releases now and then and at the end.
func (s *soak) run(n int) {
	s.Helper()
	settings, devices := s.place.settings(s.T), s.place.look(s.T)
	s.bare = devices.made
	for i := range n {
		what := []string{"apply", "apply", "release", "daemon", "run"}[s.random.IntN(5)]
		if what == "release" && s.before.scopes == "" {
			what = "apply" // there is nothing to end
		}
		s.kill(what)
		if i%releases == releases-1 || i == n-1 {
			s.release(devices.exact)
		}
	}
	if diff := cmp.Diff(settings, s.place.settings(s.T)); diff != "" {
		s.Errorf("settings differ (-before +after):\n%s", diff)
	}
	// The next run removes the remains of killed ones.
	if _, err := scoped.Run(s.Context(), scoped.Command{Args: []string{"true"}, Limits: map[direction.Direction]*police.Limit{direction.Egress: {Rate: 1_000_000}}}); err != nil {
		s.Error(err)
	}
	s.Logf("%d kills: %v", n, s.count)
}

// kill starts a deed, kills it after a moment, and checks the remains.
func (s *soak) kill(what string) {
	s.Helper()
	d, wanted := s.deed, treated{}
	d.What = what
	switch what {
	case "run":
		d.File = fmt.Sprintf("exec 3<>/dev/tcp/%s/%d; echo $$; while echo x >&3; do read -u 3 x; done", s.place.echo.Addr(), s.place.echo.Port())
	case "apply", "daemon":
		wanted = s.policies[s.random.IntN(len(s.policies))]
		d.File = filepath.Join(s.State, "policy.yaml")
		if err := os.WriteFile(d.File, []byte(wanted.text()), 0o600); err != nil {
			s.Fatal(err)
		}
	}
	process, err := child.StartIn(context.Background(), "deed", s.Output(), func(*syscall.SysProcAttr) error { return s.place.here.Enter() })
	if err != nil {
		s.Fatal(err)
	}
	if err := json.NewEncoder(process.In).Encode(d); err != nil {
		s.Fatal(err)
	}
	// Any moment will do, from before its start to after its end. The logarithm of the time is
	// even: a step of some milliseconds is as likely as loading the programs.
	select {
	case <-time.After(time.Duration(float64(soonest) * math.Pow(float64(latest/soonest), s.random.Float64()))):
	case <-process.Done():
	}
	_ = process.Kill()
	_ = process.Wait()
	s.count[what]++
	s.Logf("killed %s of %v", what, wanted.names())
	if what == "run" {
		s.freed(bufio.NewScanner(process.Out))
		return
	}
	s.oldOrNew(what, wanted)
}

// names returns the scopes of a policy, in the form that oldOrNew compares.
func (p treated) names() (all []string) {
	for line := range strings.Lines(p.scopes) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		all = append(all, name)
	}
	return all
}

// oldOrNew checks that the active state after the next command is the old or the wanted one,
// completely.
func (s *soak) oldOrNew(what string, wanted treated) {
	s.Helper()
	var status engine.Status
	err := s.place.here.Do(func() error {
		_, err := s.engine.Rebind()
		if err == nil {
			status, err = s.engine.Status()
		}
		return err
	})
	if err != nil {
		s.Fatalf("after a killed %s: %v", what, err)
	}
	var now []string
	for _, scope := range status.Scopes {
		now = append(now, scope.Name)
		if scope.State != "enforced" {
			s.Errorf("after a killed %s scope %s is %s", what, scope.Name, scope.State)
		}
	}
	switch {
	case cmp.Equal(now, wanted.names()):
		s.before = wanted
	case !cmp.Equal(now, s.before.names()):
		s.Fatalf("after a killed %s: %v is active; before %v, wanted %v", what, now, s.before.names(), wanted.names())
	}
	if status.Interrupted || status.Enforced != (len(now) > 0) {
		s.Errorf("after a killed %s: %v active (%t), interrupted %t", what, now, status.Enforced, status.Interrupted)
	}
	if left := s.lacks(s.before); left != "" {
		testutil.Eventually(s, patience, fmt.Sprintf("after a killed %s there is what %v takes; %s", what, now, left), func() bool { return s.lacks(s.before) == "" })
	}
}

// lacks describes the difference between the kernel's objects and a policy's; "" if there is none.
func (s *soak) lacks(p treated) string {
	programs := testutil.CountPrograms(s, s.Root)
	limits, controls := count(p.limits), count(p.control != "")
	devices := compare.Or(p.made, s.bare)
	offered, err := probe.CongestionControls()
	if err != nil {
		s.Fatal(err)
	}
	var own []string
	for _, name := range offered {
		if control, is := strings.CutPrefix(name, s.Controls); is && control != "run" {
			own = append(own, control)
		}
	}
	control := p.control
	if control != "" {
		control = s.Controls + control
	} else {
		control = s.place.usual
	}
	used := s.place.control(s.T)
	switch {
	case programs[0] != limits+count(p.tells), programs[1] > limits+count(p.holds), programs[2] != limits+controls+count(p.tells && !p.limits):
		return fmt.Sprintf("%v programs are at the cgroup: %s", programs, s.programs())
	case s.place.look(s.T).made != devices:
		return fmt.Sprintf("the devices have\n%sand are to have\n%s", s.place.look(s.T).made, devices)
	case len(own) != controls || controls == 1 && own[0] != p.control:
		return fmt.Sprintf("the congestion controls are %v", own)
	case used != control:
		return fmt.Sprintf("a connection uses %s, and not %s", used, control)
	}
	return ""
}

// programs names those at the cgroup.
func (s *soak) programs() string {
	var names []string
	for _, hook := range testutil.LimitHooks {
		for _, program := range testutil.ProgramsAt(s, s.Root, hook) {
			names = append(names, fmt.Sprintf("%s %s %d", hook, programName(s.T, program.ID), program.ID))
		}
	}
	return strings.Join(names, ", ")
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// freed checks that the connection of a command with a killed limit is not paced, and ends the
// command.
func (s *soak) freed(out *bufio.Scanner) {
	s.Helper()
	pid := 0
	if !out.Scan() {
		return // killed before
	}
	if _, err := fmt.Sscan(out.Text(), &pid); err != nil {
		s.Fatal(err)
	}
	command, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = unix.Close(command) }()
	socket, err := unix.PidfdGetfd(command, 3, 0)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = unix.Close(socket) }()
	testutil.Eventually(s, patience, "the command's connection is set free", func() bool { return paced(s.T, socket) == unpaced })
	if err := unix.PidfdSendSignal(command, unix.SIGKILL, nil, 0); err != nil {
		s.Fatal(err)
	}
	testutil.Eventually(s, patience, "the command ends", func() bool {
		return errors.Is(unix.Kill(pid, 0), unix.ESRCH)
	})
}

// release releases, and checks the remains.
func (s *soak) release(devices string) {
	s.Helper()
	if err := s.place.here.Do(func() error { _, err := s.engine.Release(); return err }); err != nil {
		s.Fatal(err)
	}
	s.before = treated{}
	if _, err := os.Stat(s.Pins); !errors.Is(err, fs.ErrNotExist) {
		s.Errorf("pins are left: %v", err)
	}
	testutil.Eventually(s, patience, "programs and congestion controls have gone", func() bool { return s.lacks(treated{}) == "" })
	if diff := cmp.Diff(devices, s.place.look(s.T).exact); diff != "" {
		s.Errorf("the devices differ (-before +after):\n%s", diff)
	}
	for _, l := range s.place.conns {
		if got := paced(s.T, l.fd); got != l.rate {
			s.Errorf("a connection is paced at %d octet/s, its application has set %d", got, l.rate)
		}
		select {
		case err := <-l.calls:
			s.Fatalf("a connection has ended: %v", err)
		default:
		}
	}
}
