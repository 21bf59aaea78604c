// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/internal/fault"
	"weir/kernel/probe"
	"weir/kernel/testutil"
)

// answer is the result of a probe in a child with fewer rights.
type answer struct {
	Status fault.Status
	Error  string
	Try    string
}

// restricted are the children of these tests: all run a few probes, two of them behind a seccomp
// filter.
var restricted = child.Parts{
	"plain": func(_ io.Reader, out io.Writer) error { return answers(out) },
	"eperm": func(_ io.Reader, out io.Writer) error { return filteredAnswers(out, unix.EPERM) },
	"enosys": func(_ io.Reader, out io.Writer) error {
		return filteredAnswers(out, unix.ENOSYS)
	},
}

func filteredAnswers(out io.Writer, errno unix.Errno) error {
	if err := testutil.RefuseBPF(errno); err != nil {
		return err
	}
	return answers(out)
}

func answers(out io.Writer) error {
	all := map[string]answer{}
	for name, try := range map[string]func() error{
		"bpf": probe.BPF, "xdp": probe.XDPNative, "tbf": func() error { return probe.Qdisc("tbf") }, "namespaces": probe.Namespaces,
		"cubic": func() error { return probe.CongestionControl("cubic") }, "cgroup": probe.CgroupV2,
	} {
		if err := try(); err != nil {
			all[name] = answer{fault.Of(err), err.Error(), fault.Advice(err)}
		}
	}
	return json.NewEncoder(out).Encode(all)
}

// ask runs this test binary as the named child, started by a command that drops rights.
func ask(t *testing.T, name string, through ...string) map[string]answer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	line := append(through, self)
	command := exec.Command(line[0], line[1:]...)
	command.Env = append(os.Environ(), "WEIR_CHILD="+name)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		if name != "plain" && strings.Contains(stderr.String(), "seccomp") {
			testutil.Need(t, "seccomp", err)
		}
		t.Fatalf("child %s: %v\n%s", name, err, stderr.String())
	}
	var all map[string]answer
	if err := json.Unmarshal(stdout.Bytes(), &all); err != nil {
		t.Fatalf("child %s: %v in %q", name, err, stdout.String())
	}
	return all
}

func TestWithoutCapabilitiesTheyAreNamed(t *testing.T) {
	testutil.NeedRoot(t)
	setpriv := testutil.Command(t, "setpriv")
	all := ask(t, "plain", setpriv, "--bounding-set", "-all", "--inh-caps", "-all")
	for name, want := range map[string]string{
		"namespaces": "CAP_NET_ADMIN and CAP_SYS_ADMIN", "tbf": "CAP_NET_ADMIN and CAP_SYS_ADMIN",
		"xdp": "CAP_BPF and CAP_NET_ADMIN and CAP_SYS_ADMIN",
	} {
		t.Run(name, func(t *testing.T) {
			got := all[name]
			if got.Status != fault.Permission || !strings.Contains(got.Error, want) || !strings.Contains(got.Try, want) {
				t.Errorf("%s: %+v; want status %d and the words %q", name, got, fault.Permission, want)
			}
		})
	}
	if got, failed := all["cgroup"]; failed {
		t.Errorf("mounts can be read without capabilities: %+v", got)
	}
}

func TestASeccompFilterIsNamed(t *testing.T) {
	testutil.NeedRoot(t)
	for name, want := range map[string]fault.Status{"eperm": fault.Permission, "enosys": fault.Testbed} {
		t.Run(name, func(t *testing.T) {
			all := ask(t, name)
			for _, feature := range []string{"bpf", "xdp"} {
				if got := all[feature]; got.Status != want || !strings.Contains(got.Error, "seccomp filter") || !strings.Contains(got.Try, "container") {
					t.Errorf("%s, %s: %+v; want status %d and a seccomp filter named", name, feature, got, want)
				}
			}
			if got, failed := all["tbf"]; failed {
				t.Errorf("%s: qdiscs need no bpf system call: %+v", name, got)
			}
		})
	}
}
