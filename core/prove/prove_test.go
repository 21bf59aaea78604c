// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/core/engine"
	"weir/core/module"
	"weir/core/prove/station"
	"weir/internal/child"
	"weir/internal/fault"
	"weir/kernel/instance"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/modules"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{station.NearPart: station.Near, station.FarPart: station.Far})
	os.Exit(m.Run())
}

// setup creates an engine with its own folders, bpf file system, run directory and cgroup.
func setup(t *testing.T) *engine.Engine {
	t.Helper()
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	pins, root := testutil.BPFFS(t), testutil.Cgroup(t)
	for _, group := range []string{"a", "a/inner", "b"} {
		if err := os.Mkdir(filepath.Join(root.Path, group), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	all := append(modules.All(), toy{})
	language, err := modules.Language(all)
	if err != nil {
		t.Fatal(err)
	}
	return &engine.Engine{Modules: all, Language: language, StateDir: t.TempDir(), PinDir: filepath.Join(pins, "weir"), CgroupRoot: root.Path,
		Sockets: func(func(*netns.Namespace) error) error { return nil }}
}

// apply activates scopes, each written as in a policy file: "a: {cgroup: /a, egress: 20Mbit}".
func apply(t *testing.T, e *engine.Engine, scopes ...string) {
	t.Helper()
	p, err := e.Language.Parse("policy.yaml", []byte("version: 1\nscopes:\n  "+strings.Join(scopes, "\n  ")+"\n"))
	if err == nil {
		_, err = e.Apply(p)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// run applies scopes and proves them from the test's own namespace, which stands for the host's.
func run(t *testing.T, e *engine.Engine, o Options, scopes ...string) *Result {
	t.Helper()
	apply(t, e, scopes...)
	o.Engine, o.Duration, o.Lengthen, o.Repetitions = e, 100*time.Millisecond, time.Second, 1
	var result *Result
	if err := inNamespace(t, func() (err error) {
		result, err = Run(t.Context(), o)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return result
}

// inNamespace runs f in a namespace of the test, which stands for the host's.
func inNamespace(t *testing.T, f func() error) error {
	t.Helper()
	return testutil.Namespace(t, "host").Do(f)
}

// find returns the result of a bypass for a scope.
func find(t *testing.T, r *Result, scope, name string) Bypass {
	t.Helper()
	for _, b := range r.Bypasses {
		if b.Scope == scope && b.Name == name {
			return b
		}
	}
	t.Fatalf("nothing is said of %s for %s: %+v", name, scope, r.Bypasses)
	return Bypass{}
}

// Tests assert no rate, because it depends on time. The charged bytes per received byte are a
// count.
func TestEveryPathOfAScopeIsCharged(t *testing.T) {
	e := setup(t)
	testutil.Snapshot(t)
	result := run(t, e, Options{}, "a: {cgroup: /a, egress: {rate: 20Mbit, mode: police}}")
	if len(result.Rows) != 6 {
		t.Fatalf("%d rates, want TCP and UDP of both families, QUIC-like and short: %+v", len(result.Rows), result.Rows)
	}
	for _, row := range result.Rows {
		if row.Path.IPv6 && IPv6() != nil {
			continue
		}
		if strings.Contains(row.Reason, "the path carries") {
			t.Logf("%s: %s", row.Path, row.Reason) // the machine is too busy for the rate
			continue
		}
		if len(row.Samples) != 1 {
			t.Errorf("%s: %d samples, %s: %s", row.Path, len(row.Samples), row.Verdict, row.Reason)
			continue
		}
		if n := len(row.Samples[0].Transfers); row.Path.Protocol == module.Short && n == 0 {
			t.Errorf("%s: no transfers", row.Path)
		}
		if row.Path.Protocol == module.TCP && row.Samples[0].Left == 0 {
			t.Errorf("%s: nothing was sent: %+v", row.Path, row.Samples[0])
		}
		if q := row.Samples[0].Quotient; q < 0.9 || q > 1.2 {
			t.Errorf("%s: charged %.2f times", row.Path, q)
		}
	}
	for check, want := range map[string][]State{
		"sockets opened before":     {CanEscape},
		"tunnel":                    {Covered, NotApplicable},
		"loopback":                  {NotApplicable},
		"super-packets":             {Covered, Unknown},
		"another network namespace": {Covered},
		"forwarded traffic":         {NotApplicable},
	} {
		got := find(t, result, "a", check)
		if !strings.Contains(fmt.Sprint(want), string(got.State)) {
			t.Errorf("%s: %s because %s; want %s", check, got.State, got.Why, want)
		}
	}
	if b := find(t, result, anyScope, "more than four scopes"); b.State != Covered {
		t.Errorf("more than four scopes: %s because %s", b.State, b.Why)
	}
	if b := find(t, result, anyScope, "packet sockets"); b.State != CanEscape {
		t.Errorf("packet sockets: %s because %s", b.State, b.Why)
	}
	if e := find(t, result, "any", "sockets open at the attach"); e.State != Covered {
		t.Errorf("sockets open at the attach: %s because %s", e.State, e.Why)
	}
}

func TestUsersAndPrefixesAreReached(t *testing.T) {
	e := setup(t)
	testutil.Snapshot(t)
	result := run(t, e, Options{}, "user: {user: 4321, egress: {rate: 20Mbit, mode: police}, loopback: true}", "prefix: {prefix: 10.231.0.0/16, egress: {rate: 20Mbit, mode: police}}")
	for _, want := range []struct {
		scope, check string
		state        State
	}{
		{"user", "another network namespace", Covered},
		{"user", "loopback", Covered},
		{"user", "sockets opened before", CanEscape},
		{"prefix", "another network namespace", Covered},
		{"prefix", "loopback", NotApplicable},
		{"prefix", "sockets opened before", NotApplicable},
	} {
		if got := find(t, result, want.scope, want.check); got.State != want.state {
			t.Errorf("%s, %s: %s because %s; want %s", want.scope, want.check, got.State, got.Why, want.state)
		}
	}
}

func TestWhatCannotBeMeasuredIsSaid(t *testing.T) {
	e := setup(t)
	apply(t, e, "slow: {cgroup: /a, egress: {rate: 64kbit, mode: police}}", "shadow: {cgroup: /b, egress: {rate: 50Mbit, mode: police}, shadow: true}",
		"away: {cgroup: /nowhere, egress: {rate: 50Mbit, mode: police}}", "device: {interface: lo, egress: {rate: 50Mbit, mode: police}}", "family: {egress: {rate: 60Mbit, mode: police}}",
		"member: {cgroup: /a/inner, parent: family}")
	tests, err := Options{Engine: e, Duration: time.Second, Repetitions: 1}.Plan(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]struct {
		verdict module.Verdict
		why     string
	}{
		"slow": {CannotSay, "--duration 1m"}, "shadow": {Shadow, "it only counts"}, "away": {CannotSay, "there is no cgroup"},
		"device": {CannotSay, "--peer"}, "family": {Members, "one by one"}, "member": {"", ""},
	}
	for _, test := range tests {
		if w := want[test.Scope.Name]; test.Skip != w.verdict || !strings.Contains(test.Reason, w.why) {
			t.Errorf("%s: %q because %q; want %q because of %q", test.Scope.Name, test.Skip, test.Reason, w.verdict, w.why)
		}
	}
}

func TestAHostWithoutIPv6IsProvedByIPv4(t *testing.T) {
	e := setup(t)
	apply(t, e, "a: {cgroup: /a, egress: {rate: 50Mbit, mode: police}}", "six: {prefix: '2001:db8:1::/48', egress: {rate: 50Mbit, mode: police}}")
	tests, err := Options{Engine: e, Duration: time.Second, Repetitions: 1}.Plan(errors.New("IPv6: switched off"))
	if err != nil || len(tests) != 8 {
		t.Fatalf("%d tests, want TCP, UDP, QUIC-like and short ones of each scope; %v", len(tests), err)
	}
	for _, test := range tests {
		if is := test.Scope.Name == "six"; test.Path.IPv6 != is || (test.Skip == CannotSay) != is {
			t.Errorf("%s by %s: %q because %q", test.Scope.Name, test.Path, test.Skip, test.Reason)
		}
	}
}

func TestAWrongScopeIsNamedWithTheNearest(t *testing.T) {
	e := setup(t)
	if _, err := (Options{Engine: e}).Plan(nil); fault.Of(err) != fault.Failed || !strings.Contains(err.Error(), "no policy with scopes is active") {
		t.Errorf("without a policy: %v", err)
	}
	apply(t, e, "backups: {cgroup: /a, egress: {rate: 50Mbit, mode: police}}")
	_, err := Options{Engine: e, Scope: "backup"}.Plan(nil)
	if fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), `did you mean "backups"`) {
		t.Errorf("with a wrong scope: %v", err)
	}
}

func TestAnAddressInUseIsRefused(t *testing.T) {
	e := setup(t)
	testutil.Snapshot(t)
	apply(t, e, "a: {cgroup: /a, egress: {rate: 50Mbit, mode: police}}")
	err := inNamespace(t, func() error {
		conn, err := rtnl.Open(nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.AddAddress("lo", netip.MustParsePrefix("198.18.0.1/15")); err != nil {
			return err
		}
		_, err = Run(t.Context(), Options{Engine: e, Duration: time.Second, Repetitions: 1})
		return err
	})
	if fault.Of(err) != fault.Testbed || !strings.Contains(err.Error(), "198.18.0.1/15") {
		t.Errorf("got %v", err)
	}
}

func TestAPeerThatDoesNotListenIsNamed(t *testing.T) {
	e := setup(t)
	apply(t, e, "a: {cgroup: /a, egress: {rate: 50Mbit, mode: police}}")
	peer, err := station.Resolve(t.Context(), "127.0.0.1:9", "")
	if err != nil {
		t.Fatal(err)
	}
	err = inNamespace(t, func() error {
		_, err := Run(t.Context(), Options{Engine: e, Duration: time.Second, Repetitions: 1, Peer: peer})
		return err
	})
	if fault.Of(err) != fault.Testbed || !strings.Contains(fault.Advice(err), "--listen") {
		t.Errorf("got %v, advice %q", err, fault.Advice(err))
	}
}

// A scope of the host leaves no path for calibration, and yet a wrong token is reported before the
// bypasses are tried.
func TestAWrongTokenIsFoundAtOnce(t *testing.T) {
	e := setup(t)
	apply(t, e, "all: {host: true, egress: {rate: 50Mbit, mode: police}}")
	err := inNamespace(t, func() error {
		server, err := station.Listen("127.0.0.1:0", "right")
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error)
		go func() { served <- server.Serve(ctx) }()
		defer func() { cancel(); <-served }()
		peer, err := station.Resolve(t.Context(), server.Addr().String(), "wrong")
		if err != nil {
			return err
		}
		_, err = Run(t.Context(), Options{Engine: e, Duration: time.Second, Repetitions: 1, Peer: peer})
		return err
	})
	if fault.Of(err) != fault.Testbed || !strings.Contains(fault.Advice(err), "--token") {
		t.Errorf("got %v, advice %q", err, fault.Advice(err))
	}
}

func TestALowRateIsMeasuredForLonger(t *testing.T) {
	e := setup(t)
	apply(t, e, "a: {cgroup: /a, egress: {rate: 1Mbit, mode: police}}")
	for lengthen, told := range map[time.Duration]bool{0: false, 10 * time.Second: true} {
		tests, err := Options{Engine: e, Duration: 2 * time.Second, Lengthen: lengthen, Repetitions: 1}.Plan(nil)
		if err != nil {
			t.Fatal(err)
		}
		if told != (tests[0].Skip == "") {
			t.Errorf("made longer by up to %s: %q because %q", lengthen, tests[0].Skip, tests[0].Reason)
		}
	}
}

func TestAnInterruptedRunLeavesNothing(t *testing.T) {
	e := setup(t)
	testutil.Snapshot(t)
	apply(t, e, "a: {cgroup: /a, egress: {rate: 50Mbit, mode: police}}")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reports := 0
	err := inNamespace(t, func() error {
		result, err := Run(ctx, Options{Engine: e, Duration: time.Second, Repetitions: 1, Report: func(string, time.Duration) {
			if reports++; reports == 3 {
				cancel()
			}
		}})
		if err == nil && !result.Stopped {
			t.Error("the result does not say that it was stopped")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(e.CgroupRoot, "*", cgroupPrefix+"*"))
	if own, _ := filepath.Glob(filepath.Join(e.CgroupRoot, cgroupPrefix+"*")); err != nil || len(left)+len(own) > 0 {
		t.Errorf("cgroups left: %v %v, %v", left, own, err)
	}
}

func TestSweepRemovesWhatTheDeadHaveLeftAndNothingElse(t *testing.T) {
	e := setup(t)
	// A process id above the kernel's maximum belongs to no process.
	stale := filepath.Join(e.CgroupRoot, "a", cgroupPrefix+"4194999")
	own := filepath.Join(e.CgroupRoot, "a", fmt.Sprint(cgroupPrefix, os.Getpid()))
	for _, path := range []string{stale, own} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _ = os.Remove(own) }()
	left, err := instance.New("prove", instance.Run)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = left.Close() }()
	if err := Sweep(e.CgroupRoot); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the dead one's cgroup: %v", err)
	}
	if _, err := os.Stat(own); err != nil {
		t.Errorf("the living one's cgroup: %v", err)
	}
	if _, err := os.Stat(left.Dir); err != nil {
		t.Errorf("the living one's instance: %v", err)
	}
}
