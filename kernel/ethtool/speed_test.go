// SPDX-License-Identifier: Apache-2.0

package ethtool_test

import (
	"testing"

	"weir/kernel/ethtool"
)

func TestDevicesWithoutALinkHaveNoSpeed(t *testing.T) {
	ns := veth(t)
	for _, device := range []string{"a", "lo"} {
		if speed, err := ethtool.Speed(ns, device); err != nil || speed != 0 {
			t.Errorf("%s: %s, %v; want none", device, speed, err)
		}
	}
	if _, err := ethtool.Speed(ns, "nothere"); err == nil {
		t.Error("a device that is not there has a speed")
	}
}
