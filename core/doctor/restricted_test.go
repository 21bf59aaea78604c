// SPDX-License-Identifier: Apache-2.0

package doctor

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
	"weir/kernel/testutil"
	"weir/modules"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{
		"examine": func(_ io.Reader, out io.Writer) error { return json.NewEncoder(out).Encode(Examine(modules.All())) },
		"examine-filtered": func(_ io.Reader, out io.Writer) error {
			if err := testutil.RefuseBPF(unix.EPERM); err != nil {
				return err
			}
			return json.NewEncoder(out).Encode(Examine(modules.All()))
		},
	})
	os.Exit(m.Run())
}

// examineAs returns the report of this binary's named child, started through a command that drops
// privileges.
func examineAs(t *testing.T, name string, through ...string) Report {
	t.Helper()
	testutil.NeedRoot(t)
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
		if strings.Contains(stderr.String(), "set seccomp filter") {
			testutil.Need(t, "seccomp", err)
		}
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var report Report
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

func TestExamineThisMachine(t *testing.T) {
	testutil.Snapshot(t)
	report := examineAs(t, "examine")
	if report.Format != Format || len(report.Features) < 40 || report.Clock.Source == "" || report.Cgroups.Mode == "" {
		t.Errorf("%+v", report)
	}
	for _, feature := range report.Features {
		if (feature.State == Available) != (feature.Error == "") {
			t.Errorf("%+v", feature)
		}
	}
}

func TestWithoutCapabilitiesTheReportStaysHonest(t *testing.T) {
	setpriv := testutil.Command(t, "setpriv")
	report := examineAs(t, "examine", setpriv, "--bounding-set", "-all", "--inh-caps", "-all")
	err := report.LabError()
	if fault.Of(err) != fault.Permission || !strings.Contains(fault.Advice(err), "CAP_NET_ADMIN") {
		t.Errorf("%v, status %d, try %q", err, fault.Of(err), fault.Advice(err))
	}
	for _, feature := range report.Features {
		if feature.Group == "qdiscs" && feature.Name != "bpf" && feature.State != NotPermitted {
			t.Errorf("%s could not have been tried: %+v", feature.Name, feature)
		}
		if feature.Group == "cgroups" && feature.Name != "cgroup v2" && feature.State != NotPermitted {
			t.Errorf("hooks of cgroups could not have been asked: %+v", feature)
		}
	}
	if report.Clock.Source == "" || report.Cgroups.Mode == "" || len(report.CongestionControls) == 0 || report.Privileges.Capabilities["CAP_BPF"] {
		t.Errorf("what can be read without rights is not reported: %+v", report)
	}
	if !strings.Contains(strings.Join(report.Notes, "\n"), "may not probe some features") {
		t.Errorf("notes %q", report.Notes)
	}
}

func TestWithoutBPFTheReportSaysSo(t *testing.T) {
	report := examineAs(t, "examine-filtered")
	// netem does not help: the lab needs BPF to send frames to it.
	if err := report.LabError(); fault.Of(err) != fault.Permission || !strings.Contains(fault.Advice(err), "seccomp") {
		t.Errorf("%v, status %d, try %q", err, fault.Of(err), fault.Advice(err))
	}
	if !report.Privileges.SeccompFilter || !strings.Contains(strings.Join(report.Notes, "\n"), "refuses the bpf system call") {
		t.Errorf("notes %q", report.Notes)
	}
}
