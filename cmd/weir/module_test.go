// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sys/unix"

	"weir/cmd/weir/cli"
	"weir/core/daemon"
	"weir/core/engine"
	"weir/internal/child"
	"weir/internal/fault"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/testutil"
	"weir/modules"
)

// ground holds the state folder, pin folder and cgroup root of one test.
type ground struct{ State, Pins, Root string }

// engine returns an engine with the modules of this build and the toy module.
func (g ground) engine() (*engine.Engine, error) {
	all := append(modules.All(), toyModule{})
	language, err := modules.Language(all)
	if err != nil {
		return nil, err
	}
	return &engine.Engine{Modules: all, Language: language, StateDir: g.State, PinDir: g.Pins, CgroupRoot: g.Root,
		Sockets: func(func(*netns.Namespace) error) error { return nil }}, nil
}

// weir runs one command line in g and returns its standard output. It fails the test at another
// exit status than want.
func (g ground) weir(t *testing.T, want fault.Status, args ...string) string {
	t.Helper()
	var stdout, stderr strings.Builder
	a := &cli.App{Stdout: &stdout, Stderr: &stderr, Engine: g.engine, Inline: true}
	if status := a.Run(t.Context(), newRoot(a), args); status != want {
		t.Fatalf("weir %s: status %d, want %d\n%s%s", strings.Join(args, " "), status, want, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// send sends UDP packets from a cgroup to a closed port on loopback.
func (g ground) send(t *testing.T, group string, packets int) {
	t.Helper()
	inside, err := cgroup.Cgroup{Path: filepath.Join(g.Root, group)}.OpenSockets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = inside.Close() }()
	socket, err := inside.Socket(nil, unix.AF_INET, unix.SOCK_DGRAM)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(socket) }()
	for range packets {
		if err := unix.Sendto(socket, []byte("toy"), 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			t.Fatal(err)
		}
	}
}

// counted returns a value of the toy module's row of scope a; -1 without such a row.
func (g ground) counted(t *testing.T, column string) float64 {
	t.Helper()
	var status struct {
		Modules []struct {
			Module string
			Rows   []struct {
				Scope  string
				Values map[string]any
			}
		}
	}
	if err := json.Unmarshal([]byte(g.weir(t, fault.OK, "status", "--format", "json")), &status); err != nil {
		t.Fatal(err)
	}
	for _, r := range status.Modules {
		for _, row := range r.Rows {
			if r.Module == "toy" && row.Scope == "a" {
				n, _ := row.Values[column].(float64)
				return n
			}
		}
	}
	return -1
}

// contains fails the test if text lacks one of want.
func contains(t *testing.T, what, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s lacks %q:\n%s", what, w, text)
		}
	}
}

func toyPolicy(scopes ...string) string {
	return "version: 1\nscopes:\n  " + strings.Join(scopes, "\n  ") + "\n"
}

func newGround(t *testing.T) (g ground, file string) {
	t.Helper()
	g = ground{t.TempDir(), filepath.Join(testutil.BPFFS(t), "weir"), testutil.Cgroup(t).Path}
	if err := os.Mkdir(filepath.Join(g.Root, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	return g, filepath.Join(t.TempDir(), "policy.yaml")
}

func save(t *testing.T, file string, scopes ...string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(toyPolicy(scopes...)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The generic commands plan, apply, change, shadow, show and release the toy module, which core
// does not know, beside a built-in module.
func TestModuleLifeCycle(t *testing.T) {
	g, file := newGround(t)
	save(t, file, "a: {cgroup: /a, tally: 0}")
	g.weir(t, fault.Usage, "plan", file)
	save(t, file, "a: {cgroup: /a, tally: 3}", "b: {cgroup: /b, tally: 1, egress: {rate: 1Mbit, mode: police}}")
	contains(t, "plan", g.weir(t, fault.OK, "plan", file), "add", "tally 3", "a program that counts; by cgroup id", "waits: there is no cgroup")
	g.weir(t, fault.OK, "apply", file)
	contains(t, "plan", g.weir(t, fault.OK, "plan", file), "Nothing changes.")
	g.send(t, "a", 5)
	if got := g.counted(t, "counted"); got != 15 {
		t.Errorf("5 packets were counted as %g, want 15", got)
	}
	contains(t, "status", g.weir(t, fault.OK, "status"), "limit", "toy", "would count", "enforced", "waiting")
	contains(t, "top", g.weir(t, fault.OK, "top", "--interval", "100ms"), "counted/s", "would count/s")
	save(t, file, "a: {cgroup: /a, tally: 4}", "b: {cgroup: /b, tally: 1, egress: {rate: 1Mbit, mode: police}}")
	contains(t, "apply", g.weir(t, fault.OK, "apply", file), "tally 3 → tally 4")
	g.send(t, "a", 1)
	g.weir(t, fault.OK, "apply", "--shadow", file)
	g.send(t, "a", 2)
	if counted, would := g.counted(t, "counted"), g.counted(t, "would"); counted != 19 || would != 8 {
		t.Errorf("counted %g and would count %g, want 19 and 8", counted, would)
	}
	g.metrics(t, "weir_toy_counted_total", 19)
	contains(t, "release", g.weir(t, fault.OK, "release", "--format", "json"), `"format": "weir-release/1"`, `"released": true`)
	g.nothingLeft(t)
	contains(t, "release", g.weir(t, fault.OK, "release", "--format", "json"), `"released": false`)
	g.nothingLeft(t)
}

// metrics reads one metric of the scope a.
func (g ground) metrics(t *testing.T, name string, want float64) {
	t.Helper()
	e, err := g.engine()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := daemon.WriteMetrics(e, &text); err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&text)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == "a" && m.GetCounter().GetValue() == want {
				return
			}
		}
	}
	t.Errorf("no metric %s of a is %g", name, want)
}

// nothingLeft fails the test if pins, programs or state are left.
func (g ground) nothingLeft(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(g.Pins); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("pins left: %v", err)
	}
	testutil.Eventually(t, time.Minute, "the end of the programs", func() bool {
		return testutil.CountPrograms(t, g.Root) == [3]int{} && testutil.CountPrograms(t, filepath.Join(g.Root, "a")) == [3]int{}
	})
	left, err := os.ReadDir(g.State)
	if err != nil || len(left) != 1 || left[0].Name() != "lock" {
		t.Errorf("state left: %v, %v", left, err)
	}
}

// toyApplyPart applies two policies in turn, with a release after every fifth apply, until it is
// killed.
func toyApplyPart(in io.Reader, out io.Writer) error {
	var g ground
	if err := json.NewDecoder(in).Decode(&g); err != nil {
		return err
	}
	e, err := g.engine()
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		p, err := e.Language.Parse("policy", []byte(toyPolicy(fmt.Sprintf("a: {cgroup: /a, tally: %d, egress: {rate: 1Mbit, mode: police}}", 1+i%2))))
		if err != nil {
			return err
		}
		if _, err := e.Apply(p); err != nil {
			return err
		}
		if i == 0 {
			fmt.Fprintln(out, "first")
		}
		if i%5 == 4 {
			if _, err := e.Release(); err != nil {
				return err
			}
		}
	}
}

// After a kill at a random moment the next apply completes the journal, and the next release
// removes everything, with two modules in the policy.
func TestModuleSurvivesKills(t *testing.T) {
	g, file := newGround(t)
	save(t, file, "a: {cgroup: /a, tally: 7, egress: {rate: 1Mbit, mode: police}}")
	random := testutil.Rand(t)
	for i := range 10 {
		process, err := child.Start(context.Background(), "toy-apply", os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(process.In).Encode(g); err != nil {
			t.Fatal(err)
		}
		if _, err := process.Out.Read(make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(random.IntN(60_000)) * time.Microsecond) // a random moment
		if err := unix.Kill(process.PID(), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := process.Wait(); err == nil {
			t.Fatal("the child has ended by itself")
		}
		if i%2 == 0 {
			g.weir(t, fault.OK, "apply", file)
			contains(t, "plan", g.weir(t, fault.OK, "plan", file), "Nothing changes.")
			before := g.counted(t, "counted")
			if g.send(t, "a", 1); g.counted(t, "counted") != before+7 {
				t.Errorf("a packet was counted as %g, want 7", g.counted(t, "counted")-before)
			}
		}
		g.weir(t, fault.OK, "release")
		g.nothingLeft(t)
	}
}

// A daemon follows the policy file for the toy module, and its API reports the module's values.
func TestModuleIsFollowedAndServed(t *testing.T) {
	g, file := newGround(t)
	save(t, file, "a: {cgroup: /a, tally: 1}")
	socket := filepath.Join(t.TempDir(), "api.sock")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan fault.Status, 1)
	var log strings.Builder
	go func() {
		a := &cli.App{Stdout: io.Discard, Stderr: &log, Engine: g.engine, Inline: true}
		ended <- a.Run(ctx, newRoot(a), []string{"daemon", "--socket", socket, file})
	}()
	status := func() string {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return ""
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "GET /v1/status HTTP/1.0\r\n\r\n")
		text, _ := io.ReadAll(conn)
		return string(text)
	}
	testutil.Eventually(t, time.Minute, "the API", func() bool { return strings.Contains(status(), `"treatments":{"toy":{"Each":1}}`) })
	save(t, file, "a: {cgroup: /a, tally: 9}")
	testutil.Eventually(t, time.Minute, "the edit", func() bool { return strings.Contains(status(), `"treatments":{"toy":{"Each":9}}`) })
	if err := os.Remove(filepath.Join(g.Root, "a")); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, time.Minute, "the cgroup's end", func() bool { return strings.Contains(status(), "waiting: there is no cgroup") })
	if err := os.Mkdir(filepath.Join(g.Root, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, time.Minute, "the new cgroup", func() bool { return strings.Contains(status(), `"state":"enforced"`) })
	g.send(t, "a", 1)
	testutil.Eventually(t, time.Minute, "the count", func() bool { return strings.Contains(status(), `"counted":9`) })
	cancel()
	if got := <-ended; got != fault.OK {
		t.Errorf("the controller ended with %d: %s", got, log.String())
	}
	g.weir(t, fault.OK, "release")
	g.nothingLeft(t)
}

// weir prove runs the toy module's check, with the toy module alone in the policy.
func TestModuleIsProven(t *testing.T) {
	g, file := newGround(t)
	save(t, file, "a: {cgroup: /a, tally: 1}")
	g.weir(t, fault.OK, "apply", file)
	defer g.weir(t, fault.OK, "release")
	contains(t, "proof", g.weir(t, fault.OK, "prove", "--duration", "200ms", "--repetitions", "1", file), "tally", "holds")
}
