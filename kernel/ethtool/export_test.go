// SPDX-License-Identifier: Apache-2.0

package ethtool

// FeatureState is the state of a feature in the kernel.
type FeatureState = featureState

// States returns those of a device in the calling thread's namespace.
func States(dev string) (states map[string]FeatureState, err error) {
	err = asking(nil, func(a asker) (err error) {
		states, err = a.features(dev)
		return err
	})
	return states, err
}
