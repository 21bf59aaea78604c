// SPDX-License-Identifier: Apache-2.0

package class

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/fault"
	"weir/kernel/testutil"
	"weir/modules"
)

// systemd takes the drop-in, and the policy's language the scope that goes with it.
func TestADropInIsOne(t *testing.T) {
	d, err := newDropIn("backup@daily")
	if err != nil || d.Unit != "backup@daily.service" {
		t.Fatalf("%+v, %v", d, err)
	}
	language, err := modules.Language(modules.All())
	if err != nil {
		t.Fatal(err)
	}
	p, err := language.Parse("policy", []byte("version: 1\nscopes:\n  "+d.Scope+"\n"))
	if err != nil || len(p.Scopes) != 1 || !strings.Contains(d.Text, "Slice="+p.Scopes[0].Selector.Text+"\n") {
		t.Errorf("the scope: %v, %+v", err, p)
	}
	_, err = exec.LookPath("systemd-analyze")
	testutil.Need(t, "systemd-analyze", err)
	dir := t.TempDir()
	drop := filepath.Join(dir, "backup@.service.d", filepath.Base(d.Path))
	verify := func(text string) string {
		t.Helper()
		err := errors.Join(os.MkdirAll(filepath.Dir(drop), 0o755), os.WriteFile(drop, []byte(text), 0o644),
			os.WriteFile(filepath.Join(dir, "backup@.service"), []byte("[Service]\nExecStart=/bin/true\n"), 0o644),
			os.WriteFile(filepath.Join(dir, "weir.service"), []byte("[Service]\nExecStart=/bin/true\n"), 0o644))
		if err != nil {
			t.Fatal(err)
		}
		command := exec.Command("systemd-analyze", "verify", "--man=no", "backup@daily.service")
		command.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
		said, _ := command.CombinedOutput()
		return string(said)
	}
	if said := verify(d.Text); strings.Contains(said, "weir-lbe") {
		t.Errorf("systemd-analyze verify: %s", said)
	}
	if said := verify(strings.Replace(d.Text, "Slice=", "Slize=", 1)); !strings.Contains(said, "weir-lbe") {
		t.Errorf("systemd-analyze takes anything: %s", said)
	}
}

func TestADropInIsOfAService(t *testing.T) {
	for _, unit := range []string{"", "a b", "../x", "x.timer", "a/b.service", "x\n.service"} {
		if _, err := newDropIn(unit); fault.Of(err) != fault.Usage {
			t.Errorf("%q: %v", unit, err)
		}
	}
}
