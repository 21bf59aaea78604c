// SPDX-License-Identifier: Apache-2.0

package ethtool_test

import (
	"errors"
	"testing"

	other "github.com/safchain/ethtool"
	"golang.org/x/sys/unix"

	"weir/kernel/ethtool"
	"weir/kernel/testutil"
)

// TestFeaturesAreWhatOthersRead compares each bit with the result of another implementation.
func TestFeaturesAreWhatOthersRead(t *testing.T) {
	testutil.NeedRoot(t)
	ns := testutil.Namespace(t, "here")
	err := ns.Do(func() error {
		tool, err := other.NewEthtool()
		if err != nil {
			return err
		}
		defer tool.Close()
		want, err := tool.FeaturesWithState("lo")
		if err != nil {
			return err
		}
		got, err := ethtool.States("lo")
		if err != nil {
			return err
		}
		if len(got) != len(want) || len(got) < 30 {
			t.Errorf("%d features, another implementation finds %d", len(got), len(want))
		}
		for name, w := range want {
			if g := got[name]; g != (ethtool.FeatureState{w.Available, w.Requested, w.Active, w.NeverChanged}) {
				t.Errorf("%s is %+v, another implementation finds %+v", name, g, w)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFeaturesOfNoDevice(t *testing.T) {
	testutil.NeedRoot(t)
	ns := testutil.Namespace(t, "here")
	for _, dev := range []string{"none", "a-name-that-is-too-long-for-one"} {
		if _, err := ethtool.Features(ns, dev); !errors.Is(err, unix.ENODEV) {
			t.Errorf("features of %q: %v", dev, err)
		}
	}
	err := ns.Do(func() error {
		all, err := ethtool.Kernel([]string{"none", "lo"})
		if len(all) != 1 || len(all["lo"]) < 30 {
			t.Errorf("features of lo beside a device that is not there: %v", all)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
