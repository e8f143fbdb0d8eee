package instance

const (
	// ArmingVariable is the environment variable that arms failpoints of a program: see the package documentation.
	ArmingVariable = "ONCEWARD_FAILPOINT"
	// BrokenVariable is the environment variable that names mechanisms that do not work, separated by commas, for negative controls.
	BrokenVariable = "ONCEWARD_BROKEN"
)
