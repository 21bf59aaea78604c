// SPDX-License-Identifier: Apache-2.0

package sysfs_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/kernel/netns"
	"weir/kernel/sysfs"
	"weir/kernel/testutil"
)

// write writes the attribute with other programs, through a new sysfs mount.
func write(t *testing.T, ns *netns.Namespace, file, value string) {
	t.Helper()
	command := exec.Command("ip", "netns", "exec", ns.Name, "tee", file)
	command.Stdin = strings.NewReader(value)
	if text, err := command.CombinedOutput(); err != nil {
		t.Errorf("tee %s: %v\n%s", file, err, text)
	}
}

func TestOthersMayWriteMeanwhile(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Command(t, "ip")
	ns := testutil.Namespace(t, "here")
	err := sysfs.Within(ns, func(devices string) error {
		file := filepath.Join(devices, "lo", "gro_flush_timeout")
		write(t, ns, "/sys/class/net/lo/gro_flush_timeout", "7")
		text, err := os.ReadFile(file)
		if string(text) != "7\n" {
			t.Errorf("%q of the namespace's own device, want 7", text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSetWritesAndNamesWhatIsMissing(t *testing.T) {
	testutil.NeedRoot(t)
	ns := testutil.Namespace(t, "here")
	if err := sysfs.Set(ns, sysfs.Attribute{Device: "lo", Name: "gro_flush_timeout", Value: "9"}); err != nil {
		t.Fatal(err)
	}
	err := sysfs.Within(ns, func(devices string) error {
		text, err := os.ReadFile(filepath.Join(devices, "lo", "gro_flush_timeout"))
		if string(text) != "9\n" {
			t.Errorf("%q, want 9", text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = sysfs.Set(ns, sysfs.Attribute{Device: "lo", Name: "no_such_attribute", Value: "1"})
	if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
		t.Errorf("an attribute that is not there: %v", err)
	}
}

// TestNothingIsMounted checks the machine's list of mounts.
func TestNothingIsMounted(t *testing.T) {
	testutil.NeedRoot(t)
	ns := testutil.Namespace(t, "here")
	before, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	err = sysfs.Within(ns, func(string) error {
		now, err := os.ReadFile("/proc/self/mountinfo")
		if strings.Count(string(now), " sysfs ") != strings.Count(string(before), " sysfs ") {
			t.Errorf("a mount can be seen:\n%s", now)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
