package box

const victimVariable = "TARE_TEST_VICTIM"

func victim(string) int { return 0 }
