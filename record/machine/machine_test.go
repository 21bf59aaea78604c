// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weir/record"
)

func TestDescribeReadsTheFiles(t *testing.T) {
	const xeon = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Processor\nflags\t\t: fpu hypervisor lahf_lm\n"
	for _, test := range []struct {
		description string
		files       map[string]string
		want        record.Machine
	}{
		{
			"virtual machine", map[string]string{
				"proc/cpuinfo": xeon, "proc/meminfo": "MemTotal:        8148396 kB\nMemFree: 1 kB\n",
				"etc/os-release":              "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
				"sys/class/dmi/id/sys_vendor": "QEMU\n",
			},
			record.Machine{CPU: "Intel(R) Xeon(R) Processor", Memory: 8148396 * 1024, Distro: "Debian GNU/Linux 12 (bookworm)",
				Virtual: "virtual machine (QEMU)"},
		},
		{
			"container on it", map[string]string{"proc/cpuinfo": xeon, "proc/1/environ": "PATH=/bin\x00container=podman\x00"},
			record.Machine{CPU: "Intel(R) Xeon(R) Processor", Virtual: "virtual machine, container (podman)"},
		},
		{
			"user-mode Linux", map[string]string{"proc/cpuinfo": "vendor_id\t: User Mode Linux\nmodel name\t: UML\n"},
			record.Machine{CPU: "UML", Virtual: "user-mode Linux"},
		},
		{"nothing readable", nil, record.Machine{CPU: runtime.GOARCH}},
		{"Xen", map[string]string{"sys/hypervisor/type": "xen\n", "proc/meminfo": "MemTotal: many kB\n"},
			record.Machine{CPU: runtime.GOARCH, Virtual: "xen"}},
	} {
		t.Run(test.description, func(t *testing.T) {
			root := t.TempDir()
			for name, content := range test.files {
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got := describe(root)
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(record.Machine{}, "Kernel", "Cores")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDescribeThisHost(t *testing.T) {
	got := Describe()
	if !strings.HasPrefix(got.Kernel, "Linux ") || got.CPU == "" || got.Cores < 1 || got.Memory < 1<<20 {
		t.Errorf("%+v", got)
	}
}

func TestAClockThatCountsInstructionsIsNamed(t *testing.T) {
	for said, want := range map[string]string{"instructions": record.InstructionClock, "": "", "something else": ""} {
		t.Run("clock="+said, func(t *testing.T) {
			t.Setenv("TEST_CLOCK", said)
			if got := Describe().Clock; got != want {
				t.Errorf("TEST_CLOCK=%s: clock %q, want %q", said, got, want)
			}
		})
	}
}
