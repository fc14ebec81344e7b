package kit

// Attachments gives an attachment of one of a run's trials.
type Attachments func(trialID int64, name string) ([]byte, error)
