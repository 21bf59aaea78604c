package scenario

// file is the YAML form of a scenario. It stops at this package.
type file struct{}
