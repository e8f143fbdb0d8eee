package instance

const (
	// ArmingVariable is the environment variable that arms failpoints of a program: see the package
	// documentation.
	ArmingVariable = "ONCEWARD_FAILPOINT"
	// ArmNothing is the value of ArmingVariable, and the text for [StartOn] and [StartVictim], that
	// arms no point. The application has failpoints all the same: its databases go to the disk
	// after every few rounds, and its repartition topics are purged early.
	ArmNothing = "none"
	// BrokenVariable is the environment variable that names mechanisms that do not work, separated
	// by commas, for negative controls.
	BrokenVariable = "ONCEWARD_BROKEN"
)
