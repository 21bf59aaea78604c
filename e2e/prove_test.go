// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/kernel/testutil"
)

// box runs a shell script with its own mount and network namespaces, bpf file system and run
// directory, and a cgroup of the test as root of the hierarchy: the binary's effects on "the host"
// stay inside. $WEIR is the binary.
func box(t *testing.T, script string) outcome {
	t.Helper()
	cmd, stdout, stderr := boxed(t, script)
	return finish(t, cmd, cmd.Run(), stdout, stderr)
}

// boxed prepares a box in the command's folder.
func boxed(t *testing.T, script string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	group := testutil.Cgroup(t)
	if err := os.Mkdir(filepath.Join(group.Path, "backups"), 0o755); err != nil {
		t.Fatal(err)
	}
	const prepare = `await() { for try in $(seq 2000); do "$@" && return; sleep 0.05; done; echo "waited in vain for $*" >&2; exit 9; }
set -e
mount --bind "$GROUP" "$ROOT"
mount -t bpf bpf /sys/fs/bpf
mount -t tmpfs none /run
ip link set lo up
set +e
`
	cmd = exec.Command(testutil.Command(t, "unshare"), "--mount", "--net", "--propagation", "private", "sh", "-c", prepare+script)
	cmd.Env = append(os.Environ(), "GROUP="+group.Path, "ROOT="+filepath.Dir(group.Path), "WEIR="+binary, "WEIR_RUN_DIR=/run/weir")
	cmd.Dir = t.TempDir()
	// No background job and no endless wait of a script outlives its test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	t.Cleanup(func() {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	})
	policy := "version: 1\nscopes:\n  backups: {cgroup: /backups, egress: {rate: 20Mbit, mode: police}}\n"
	if err := os.WriteFile(filepath.Join(cmd.Dir, "policy.yaml"), []byte(policy), 0o644); err != nil {
		t.Fatal(err)
	}
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

// proof is the part of weir prove's document that the test reads.
type proof struct {
	Format string
	Rows   []struct {
		Scope, Module, Check, Part, Verdict string
		Samples                             []struct {
			Times float64 `json:"charged_times"`
		}
	}
	Bypasses []struct{ Scope, Bypass, State string }
}

func TestProveMeasuresAndLeavesNothing(t *testing.T) {
	got := box(t, `"$WEIR" apply --quiet policy.yaml >&2
"$WEIR" prove --quiet --format json --duration 200ms --repetitions 1 --out out policy.yaml
echo "status $?" >&2
ls out/report.html out/junit.xml >&2
ip -o link | grep -v ": lo:" >&2
ls /run/netns >&2
find "$ROOT" -name "weir-prove*" >&2
"$WEIR" release --quiet`)
	got.want(t, 0)
	var p proof
	if err := json.Unmarshal([]byte(got.stdout), &p); err != nil {
		t.Fatalf("%v\n%s%s", err, got.stdout, got.stderr)
	}
	if p.Format != "weir-prove/3" || len(p.Rows) == 0 || len(p.Bypasses) != 10 {
		t.Errorf("%d rows and %d bypasses in %s\n%s", len(p.Rows), len(p.Bypasses), p.Format, got.stderr)
	}
	for _, r := range p.Rows {
		if r.Module != "limit" || r.Check != "rate" || r.Part != "egress" {
			t.Errorf("%+v", r)
		}
		for _, s := range r.Samples {
			if s.Times < 0.9 || s.Times > 1.2 {
				t.Errorf("%+v: what arrived was charged %.2f times", r, s.Times)
			}
		}
	}
	for _, e := range p.Bypasses {
		if e.Bypass == "another network namespace" && e.State != "covered" {
			t.Errorf("%+v", e)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(got.stderr), "\n") {
		switch {
		case strings.HasPrefix(line, "status "), strings.HasPrefix(line, "out/"), strings.HasPrefix(line, "Error: cannot say"),
			strings.HasPrefix(line, "Try:"), strings.Contains(line, "backups"), strings.HasPrefix(line, "Applied"), strings.Contains(line, "──"):
		case strings.Contains(line, "scope "):
		default:
			t.Errorf("it left or said: %s", line)
		}
	}
}

func TestWhatAKilledProofLeavesTheNextOneRemoves(t *testing.T) {
	got := box(t, `"$WEIR" apply --quiet policy.yaml >/dev/null 2>&1
"$WEIR" prove --quiet >/dev/null 2>&1 &
prove=$!
for i in $(seq 100); do test -n "$(ls /run/netns 2>/dev/null)" && test -n "$(ip -o link | grep weir)" && break; sleep 0.1; done
kill -9 $prove
wait $prove 2>/dev/null
ls /run/netns
"$WEIR" prove --quiet --peer 127.0.0.1:9 >/dev/null 2>&1
echo "status $?"
for i in $(seq 100); do test -z "$(ip -o link | grep weir)" && break; sleep 0.1; done
ip -o link | grep weir
ls /run/netns
find "$ROOT" -name "weir-prove*"
"$WEIR" release --quiet
echo end`)
	got.want(t, 0)
	before, after, cut := strings.Cut(got.stdout, "status 3\n")
	if !cut || !strings.Contains(before, "-peer") {
		t.Fatalf("the kill hit no testbed, or the next command did not say that nobody listens:\n%s%s", got.stdout, got.stderr)
	}
	if after != "end\n" {
		t.Errorf("left after the next command:\n%s", after)
	}
}
