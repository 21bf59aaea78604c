// SPDX-License-Identifier: Apache-2.0

// Package packaging holds the files installed beside the program; its tests compare them with the
// rest of the tree.
package packaging

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"weir/kernel/testutil"
	"weir/modules"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestThePolicyAsInstalledLimitsNothing(t *testing.T) {
	language, err := modules.Language(modules.All())
	if err != nil {
		t.Fatal(err)
	}
	p, err := language.Load("policy.yaml")
	if err != nil || len(p.Scopes)+len(p.Host)+len(p.Warnings) > 0 {
		t.Errorf("%+v (%v)", p, err)
	}
	// Its example works.
	example := regexp.MustCompile(`(?m)^#   |^scopes: \{\}$`).ReplaceAllString(read(t, "policy.yaml"), "")
	if p, err := language.Parse("example", []byte(example)); err != nil || len(p.Scopes) != 2 {
		t.Errorf("the example: %v", err)
	}
}

func TestDashboardAndAlertsNameMetricsThatThereAre(t *testing.T) {
	described := read(t, "../docs/formats/metrics.md")
	var dashboard struct {
		Panels []struct{ Title string }
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/weir.json")), &dashboard); err != nil || len(dashboard.Panels) < 10 {
		t.Errorf("%d panels (%v)", len(dashboard.Panels), err)
	}
	for _, file := range []string{"grafana/weir.json", "prometheus/weir.rules.yml"} {
		names := regexp.MustCompile(`\bweir_[a-z_]+`).FindAllString(read(t, file), -1)
		if len(names) < 7 {
			t.Errorf("%s: %d metrics", file, len(names))
		}
		for _, name := range names {
			name = strings.TrimSuffix(name, "_bucket")
			if !strings.Contains(described, "`"+name+"`") && !strings.Contains(described, "`"+name+"{") {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
}

// promtool is Prometheus' checker: the installed one, or the one unpacked by packaging/promtool.
func TestPromtoolTakesTheAlerts(t *testing.T) {
	path, err := exec.Command("./promtool", "--path").Output()
	testutil.Need(t, "promtool", err)
	for _, args := range [][]string{{"check", "rules", "weir.rules.yml"}, {"test", "rules", "weir.test.yml"}} {
		command := exec.Command(strings.TrimSpace(string(path)), args...)
		command.Dir = "prometheus"
		if text, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, text)
		}
	}
}

func TestTheServicesAreExposedLittle(t *testing.T) {
	_, err := exec.LookPath("systemd-analyze")
	testutil.Need(t, "systemd-analyze", err)
	for _, name := range []string{"weir.service", "weir-lend.service", "weir-ix.service", "weir-measure.service"} {
		t.Run(name, func(t *testing.T) {
			unit := filepath.Join(t.TempDir(), name)
			// systemd-analyze looks for the program.
			if err := os.WriteFile(unit, []byte(strings.ReplaceAll(read(t, name), "/usr/bin/weir", "/bin/true")), 0o644); err != nil {
				t.Fatal(err)
			}
			text, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
			if strings.Contains(string(text), name) {
				t.Errorf("%v\n%s", err, text)
			}
			if text, err = exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", unit).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			level := regexp.MustCompile(`exposure level for ` + name + `: ([0-9.]+)`).FindSubmatch(text)
			if level == nil {
				t.Fatalf("no level:\n%s", text)
			}
			if exposure, err := strconv.ParseFloat(string(level[1]), 64); err != nil || exposure > 4 {
				t.Errorf("exposure %s (%v), want 4.0 at most", level[1], err)
			}
		})
	}
}

// The probe of ingress shaping sends a frame by a packet socket.
func TestTheDaemonMayShapeIngress(t *testing.T) {
	unit := read(t, "weir.service")
	for _, want := range []string{`CapabilityBoundingSet=.*\bCAP_NET_RAW\b`, `RestrictAddressFamilies=.*\bAF_PACKET\b`} {
		if !regexp.MustCompile(`(?m)^` + want).MatchString(unit) {
			t.Errorf("no %s", want)
		}
	}
}

// An upgrade restarts a running lender: the protocol may have changed.
func TestAnUpgradeRestartsTheLender(t *testing.T) {
	if !strings.Contains(read(t, "scripts/postinst"), "! systemctl --quiet is-active weir-lend.service || deb-systemd-invoke restart weir-lend.service") {
		t.Error("postinst restarts no lender")
	}
}

// The lender sends echo requests to all peers of lent commands.
func TestTheLenderMayMeasureRoundTrips(t *testing.T) {
	unit := read(t, "weir-lend.service")
	if !regexp.MustCompile(`(?m)^CapabilityBoundingSet=.*\bCAP_NET_RAW\b`).MatchString(unit) || strings.Contains(unit, "IPAddressDeny=") {
		t.Error("the service has no CAP_NET_RAW, or denies addresses")
	}
}

func TestInstallLaysOutWhatThePackageHas(t *testing.T) {
	root := t.TempDir()
	binary := filepath.Join(root, "weir")
	build := exec.Command("go", "build", "-o", binary, "weir/cmd/weir")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	to := filepath.Join(root, "to")
	install := func() {
		t.Helper()
		if text, err := exec.Command("./install", binary, to, "/opt/weir").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	install()
	for _, name := range []string{"opt/weir/bin/weir", "opt/weir/share/man/man1/weir-lab-run.1.gz", "opt/weir/share/man/man1/weir.1.gz",
		"opt/weir/share/bash-completion/completions/weir", "opt/weir/share/zsh/vendor-completions/_weir", "opt/weir/share/fish/vendor_completions.d/weir.fish",
		"opt/weir/share/doc/weir/README.md", "opt/weir/share/doc/weir/docs/formats/policy.md", "opt/weir/share/doc/weir/docs/schema/policy.schema.json",
		"opt/weir/share/doc/weir/docs/known-issues.md", "opt/weir/share/doc/weir/modules/limit/README.md", "opt/weir/share/weir/weir.json", "opt/weir/share/weir/weir.rules.yml", "etc/weir/policy.yaml",
		"opt/weir/lib/sysusers.d/weir-measure.conf", "opt/weir/lib/tmpfiles.d/weir-measure.conf", "opt/weir/share/doc/weir/measure/README.md"} {
		if info, err := os.Stat(filepath.Join(to, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if unit := read(t, filepath.Join(to, "opt/weir/lib/systemd/system/weir.service")); !strings.Contains(unit, "ExecStart=/opt/weir/bin/weir daemon\n") {
		t.Errorf("the unit starts another program:\n%s", unit)
	}
	if unit := read(t, filepath.Join(to, "opt/weir/lib/systemd/system/weir-measure.service")); !strings.Contains(unit, "ExecStart=/opt/weir/bin/weir measure serve --spool /var/spool/weir $OPTIONS\n") || !strings.Contains(unit, "CapabilityBoundingSet=CAP_NET_BIND_SERVICE\n") {
		t.Errorf("the unit of a measurement site:\n%s", unit)
	}
	mine := filepath.Join(to, "etc/weir/policy.yaml")
	if err := os.WriteFile(mine, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	install()
	if read(t, mine) != "mine" {
		t.Error("an administrator's policy was replaced")
	}
}
