# service/app/survey_scripts/slurm.sh: after frames.sh, on the controller of a Slurm cluster. How the node NODE_SLURM_NAME
# stands, and the jobs on it. A job's own name is not asked for: whoever starts it may put any line into it.
# shellcheck shell=bash
unset SLURM_TIME_FORMAT "${!SQUEUE_@}"
tell node 7 scontrol show node -o "$NODE_SLURM_NAME"
tell jobs 7 squeue -h -a -w "$NODE_SLURM_NAME" -o '%A|%u|%T|%D|%S'
finish
