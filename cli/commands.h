/* The commands. Each prints what is wrong itself and returns the exit status. */
#pragma once

#include "cli/common/parse.h"

int cmd_fit(const args *arguments);
int cmd_measure(const args *arguments);
int cmd_test(const args *arguments);
int cmd_audit(const args *arguments);
int cmd_train(const args *arguments);
int cmd_predict(const args *arguments);
int cmd_experiment(const args *arguments);
int cmd_experiment_run(const args *arguments);
int cmd_data(const args *arguments);
int cmd_demo(const args *arguments);
int cmd_bench(const args *arguments);
