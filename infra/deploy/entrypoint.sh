#!/bin/bash
# What a pod of the image runs: its arguments, or an executor, which Spark starts by that one word and with all else in
# the environment (SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, … are options of the JVM, in this order).
# Held by tests/project/test_deploy.py.
set -eu

if [ "${1:-}" != executor ]; then
  exec tini -s -- "$@"
fi

options=()
for name in $(compgen -e SPARK_JAVA_OPT_ | sort -t _ -k 4 -n); do
  options+=("${!name}")
done
exec tini -s -- java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
